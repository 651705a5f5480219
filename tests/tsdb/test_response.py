import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.tsdb.response import Answer, Reader, TooLargeError, UnreachableError

CASES = [
    ("a length", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Answer(200, b"hello"), True),
    ("no body", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", Answer(204, b""), True),
    ("length zero", b"HTTP/1.1 500 Oops\r\ncontent-length:0\r\n\r\n", Answer(500, b""), True),
    (
        "chunks",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        Answer(200, b"hello"),
        True,
    ),
    (
        "chunks with trailers",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\n",
        Answer(200, b"0123456789"),
        True,
    ),
    (
        "a chunk that looks like the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n",
        Answer(200, b"\r\n0\r\n\r\n"),
        True,
    ),
    (
        "a close",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        Answer(200, b"ok"),
        False,
    ),
    ("an old version", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", Answer(200, b"ok"), False),
]


@pytest.mark.parametrize(("_name", "sent", "answer", "keeps_alive"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_a_response_is_read_however_it_is_cut(_name, sent, answer, keeps_alive, piece):
    reader = Reader(1000)

    complete = [reader.feed(sent[at : at + piece]) for at in range(0, len(sent), piece)]

    assert complete == [False] * (len(complete) - 1) + [True]
    assert reader.answer == answer
    assert reader.keeps_alive is keeps_alive


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.integers(1, 200))
def test_chunks_of_any_bytes_are_joined(chunks, piece):
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    reader = Reader(10_000)

    complete = [reader.feed(sent[at : at + piece]) for at in range(0, len(sent), piece)]

    assert complete[-1]
    assert reader.answer == Answer(200, b"".join(chunks))


def test_a_body_without_a_length_ends_with_the_connection():
    reader = Reader(100)

    assert not reader.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    assert not reader.feed(b" text")

    assert reader.end()
    assert reader.answer == Answer(200, b"some text")
    assert not reader.keeps_alive


@pytest.mark.parametrize(
    "sent",
    [b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", CASES[3][1][:-3]],
)
def test_a_response_that_breaks_off_is_not_complete(sent):
    reader = Reader(100)

    assert not reader.feed(sent)
    assert not reader.end()


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 2000,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
    ],
)
def test_what_is_no_http_is_refused(sent):
    with pytest.raises(UnreachableError):
        Reader(100).feed(sent)


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n" + b"x" * 64 + b"\r\n40\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
    ],
)
def test_a_body_above_the_bound_is_refused_before_it_is_held(sent):
    with pytest.raises(TooLargeError):
        Reader(100).feed(sent)


@pytest.mark.parametrize(("_name", "sent", "answer", "_keeps_alive"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_sink_gets_the_body_of_a_success_and_of_nothing_else(_name, sent, answer, _keeps_alive, piece):
    came = []
    reader = Reader(1000, came.append)

    for at in range(0, len(sent), piece):
        reader.feed(sent[at : at + piece])

    if answer.status == 200:
        assert (b"".join(came), reader.answer) == (answer.body, Answer(200, b""))
    else:
        assert (came, reader.answer) == ([], answer)


def test_a_sink_gets_no_more_than_the_bound():
    came = []
    reader = Reader(4, came.append)

    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nabc")

    with pytest.raises(TooLargeError):
        reader.feed(b"def")

    assert came == [b"abc"]
