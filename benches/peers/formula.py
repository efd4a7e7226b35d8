"""Numbers by formula, the same as benches/src/formula.rs makes."""

import numpy as np


def salt(name):
    """The salt of a tensor's name: FNV-1a."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def entries(name_salt, count):
    """The first entries of a tensor: uniform in [-1, 1), exact in f32."""
    with np.errstate(over="ignore"):
        mixed = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) ^ np.uint32(name_salt)
        mixed ^= mixed >> np.uint32(16)
        mixed *= np.uint32(0x85EBCA6B)
        mixed ^= mixed >> np.uint32(13)
        mixed *= np.uint32(0xC2B2AE35)
        mixed ^= mixed >> np.uint32(16)
    return (mixed >> np.uint32(8)).astype(np.float32) / np.float32(8388608.0) - np.float32(1.0)


def tensor(name, shape, scale):
    """A tensor by its name, uniform in [-scale, scale)."""
    values = entries(salt(name), int(np.prod(shape))) * np.float32(scale)
    return values.reshape(shape)


def weight_scale(fan_in):
    """The scale of a layer's weights."""
    return np.sqrt(np.float32(3.0) / np.float32(fan_in))


assert salt("weight") == 0x50A09EB9
assert entries(salt("weight"), 65536)[[0, 1, 65535]].tolist() == [
    0.7444781064987183,
    0.7181096076965332,
    0.0852731466293335,
]
