"""Ships the containers' logs: every line once, whatever is killed or away meanwhile.

A reader follows each container and puts its lines into the open batch; a closed
batch is written to the spool together with the positions it reaches, in one file,
before it is sent.  What repeats a batch repeats its id, what restarts a reader
starts at its position.
"""
