"""Small ONNX files, written by the definition of the format; there is no need of a package.

Field numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

import numpy as np

ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
# onnxruntime's own operators.
RUNTIME = "com.microsoft"


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A number, or bytes with their length before them."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, value):
    value = np.asarray(value)
    shape = b"".join(field(1, size) for size in value.shape)
    return shape + field(2, ELEMENTS[value.dtype.name]) + field(8, name) + field(9, value.tobytes())


def described(name, dtype, shape):
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, ELEMENTS[dtype]) + field(2, sizes)))


def attribute(value):
    """An integer, a text or a list of integers, with the number of its type."""
    if isinstance(value, int):
        return field(3, value) + field(20, 2)
    if isinstance(value, str):
        return field(4, value) + field(20, 3)
    return b"".join(field(8, each) for each in value) + field(20, 7)


def attributes(values):
    return b"".join(field(5, field(1, name) + attribute(value)) for name, value in values.items())


class Graph:
    """A model that is written node by node."""

    def __init__(self):
        self.nodes, self.constants, self.count = b"", b"", 0

    def constant(self, value):
        self.count += 1
        self.constants += field(5, tensor(f"c{self.count}", value))
        return f"c{self.count}"

    def node(self, operator, inputs, domain="", **values):
        """Adds a node; gives the name of its output."""
        self.count += 1
        output = f"v{self.count}"
        names = b"".join(field(1, name) for name in inputs)
        node = names + field(2, output) + field(4, operator) + attributes(values)
        self.nodes += field(1, node + field(7, domain))
        return output

    def finish(self, x, y, opset=13):
        """The bytes of the file; `y` is given as (name, dtype, shape), `x` as one or several."""
        graph = self.nodes + field(2, "graph") + self.constants
        for each in [x] if isinstance(x, tuple) else x:
            graph += field(11, described(*each))
        graph += field(12, described(*y))
        sets = field(8, field(1, "") + field(2, opset))
        sets += field(8, field(1, RUNTIME) + field(2, 1))
        return field(1, 8) + sets + field(7, graph)
