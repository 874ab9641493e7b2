"""Compressed replies: who gets one, and that it is the same reply."""

import gzip
import zlib

import pytest

from tidegate_realtime.api.deflating import accepted_encoding, deflated
from tidegate_realtime.api.replies import Reply

HEADERS = [("content-type", "application/octet-stream"), ("inference-header-content-length", "9")]


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("br", None),
        ("*", None),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip, deflate, br", "gzip"),
        ("deflate;q=1.0, GZIP;q=0.5", "gzip"),
        ("gzip;q=0, deflate", "deflate"),
        ("gzip; q=0.000", None),
        ("gzip;q=0.001", "gzip"),
        ("xgzip", None),
    ],
)
def test_the_encoding_is_one_that_was_offered(offered: str | None, chosen: str | None) -> None:
    assert accepted_encoding(offered) == chosen


@pytest.mark.parametrize("size", [1_025, 200_000])
async def test_a_long_reply_is_the_same_after_unpacking(size: int) -> None:
    reply = Reply(200, HEADERS, b"0.5," * (size // 4 + 1))
    for encoding, unpack in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
        packed = await deflated(reply, encoding)
        assert unpack(packed.body) == reply.body
        assert len(packed.body) < size / 10
        more = [("content-encoding", encoding), ("vary", "accept-encoding")]
        assert packed.headers == HEADERS + more


async def test_a_short_reply_and_one_that_nobody_can_unpack_stay_as_they_are() -> None:
    short, long = Reply(200, HEADERS, b"x" * 1_024), Reply(200, HEADERS, b"x" * 9_999)
    assert await deflated(short, "gzip") is short
    assert await deflated(long, None) is long
