"""The SQL of evaluation: rules and open alerts as they are read, alerts as they are opened and resolved.

Whoever changes alerts locks in the order agent, rule, alert; several of one kind in the
order of their ids.  What the API asks is in ``definition.store`` and ``fired.store``.
"""
