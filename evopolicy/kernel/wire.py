"""MessagePack with an ndarray extension: the only thing that crosses to a Policy's process, and what traces hold."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from evopolicy.kernel.errors import EvoPolicyError

NDARRAY = 1
_KINDS = "biuf"


class WireError(EvoPolicyError):
    """Bytes that are no frame of ours."""


def _extend(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value).reshape(value.shape)
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"an array of {array.dtype} cannot cross the wire")
        head = array.dtype.str.encode()
        shape = struct.pack(f"<B{len(head)}sB{array.ndim}I", len(head), head, array.ndim, *array.shape)
        return msgspec.msgpack.Ext(NDARRAY, shape + array.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot cross the wire")


def _restore(code: int, data: memoryview) -> Any:
    if code != NDARRAY:
        raise WireError(f"extension {code} is unknown")
    try:
        (size,) = struct.unpack_from("<B", data, 0)
        dtype = np.dtype(bytes(data[1 : 1 + size]).decode("ascii"))
        if dtype.kind not in _KINDS:
            raise WireError(f"an array of {dtype} is not allowed")
        (ndim,) = struct.unpack_from("<B", data, 1 + size)
        shape = struct.unpack_from(f"<{ndim}I", data, 2 + size)
        return np.frombuffer(data, dtype, offset=2 + size + 4 * ndim).reshape(shape)
    except (struct.error, ValueError, TypeError, UnicodeDecodeError) as error:
        raise WireError(f"malformed array: {error}") from None


_encoder = msgspec.msgpack.Encoder(enc_hook=_extend)
_decoder = msgspec.msgpack.Decoder(ext_hook=_restore)


def encode(value: Any) -> bytes:
    """One frame. Arrays keep dtype and shape; NumPy scalars become numbers; tuples arrive as lists. Raises TypeError."""
    return _encoder.encode(value)


def decode(frame: bytes | memoryview) -> Any:
    """The value of one frame; arrays are read-only views of it. Raises WireError."""
    try:
        return _decoder.decode(frame)
    except (msgspec.DecodeError, RecursionError, OverflowError, MemoryError) as error:
        raise WireError(f"not MessagePack: {error}") from None
