"""MessagePack with an ndarray extension: the only thing that crosses to a Policy's process, and
what traces hold."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from evopolicy.kernel.errors import EvoPolicyError

NDARRAY = 1
_KINDS = "biuf"
_EXT32 = 0xC9


class WireError(EvoPolicyError):
    """Bytes that are no frame of ours."""


@lru_cache(maxsize=256)
def _array_head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    if dtype.kind not in _KINDS:
        raise TypeError(f"an array of {dtype} cannot cross the wire")
    text = dtype.str.encode()
    return struct.pack(f"<B{len(text)}sB{len(shape)}I", len(text), text, len(shape), *shape)


@lru_cache(maxsize=256)
def array_prefix(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What a frame of one array of `dtype` and `shape` begins with; the array's bytes in C order
    follow and end it."""
    head = _array_head(dtype, shape)
    size = len(head) + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return struct.pack(">BIb", _EXT32, size, NDARRAY) + head


@lru_cache(maxsize=256)
def _parse_head(head: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    try:
        dtype = np.dtype(head[1 : 1 + head[0]].decode("ascii"))
        if dtype.kind not in _KINDS:
            raise WireError(f"an array of {dtype} is not allowed")
        return dtype, struct.unpack_from(f"<{head[1 + head[0]]}I", head, 2 + head[0])
    except (struct.error, ValueError, TypeError, SyntaxError, UnicodeDecodeError) as error:
        raise WireError(f"malformed array: {error}") from None


def _extend(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(NDARRAY, _array_head(value.dtype, value.shape) + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot cross the wire")


def _restore(code: int, data: memoryview) -> NDArray[Any]:
    if code != NDARRAY:
        raise WireError(f"extension {code} is unknown")
    try:
        size = 2 + data[0] + 4 * data[1 + data[0]]
        dtype, shape = _parse_head(bytes(data[:size]))
        return (
            np.frombuffer(data, dtype, offset=size).reshape(shape)
            if 0 not in shape
            else np.empty(shape, dtype)
        )
    except (IndexError, ValueError, TypeError) as error:
        raise WireError(f"malformed array: {error}") from None


_encoder = msgspec.msgpack.Encoder(enc_hook=_extend)
_decoder = msgspec.msgpack.Decoder(ext_hook=_restore)


def encode(value: Any) -> bytes:
    """One frame. Arrays keep dtype and shape, NumPy scalars become numbers, tuples lists. Raises
    TypeError."""
    if type(value) is np.ndarray:
        return array_prefix(value.dtype, value.shape) + value.tobytes()
    return _encoder.encode(value)


def decode(frame: bytes | memoryview) -> Any:
    """The value of one frame; arrays are read-only views of it. Raises WireError."""
    try:
        return _decoder.decode(frame)
    except (
        msgspec.MsgspecError,
        RecursionError,
        OverflowError,
        MemoryError,
        ValueError,
        TypeError,
    ) as error:
        raise WireError(f"not MessagePack: {error}") from None
