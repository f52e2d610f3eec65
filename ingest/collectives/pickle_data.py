"""Read pickles that hold plain data, and nothing else. No class, no import, no call.

A pickle is a program for a small stack machine. `pickle.load` runs all of it, so a file can name
any function and have it called. This machine knows only the instructions that build None, booleans,
numbers, text, lists, tuples and dictionaries. An instruction that imports, calls, sets state or
asks the caller for an object is not carried out later and safely: it does not exist here.

Bounds: `MAX_BYTES` and `MAX_OPCODES` bound memory (an instruction makes at most one object, so the
worst stream takes about 0.6 GiB); `check_shape` bounds what shared and self-containing structures
expand to. Python per instruction, because the format is sequential: 1 to 3 million a second.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from io import BytesIO
from typing import Any

MAX_BYTES = 64 << 20
MAX_OPCODES = 4_000_000
MAX_DEPTH = 32
MAX_NODES = 8_000_000
# The stack, the memo and the containers on it hold values of any of the plain types.
Value = Any


class UnsafePickleError(ValueError):
    """The stream is not a plain-data pickle; the text says at which byte and why."""


class _Machine:
    """Stack, marks and memo of one stream."""

    def __init__(self) -> None:
        self.stack: list[Value] = []
        self.marks: list[int] = []
        self.memo: dict[int, Value] = {}

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def ignore(self, _argument: Value) -> None:
        """Frames and protocol numbers say nothing about the value."""

    def pop(self) -> Value:
        floor = self.marks[-1] if self.marks else 0
        if len(self.stack) <= floor:
            raise UnsafePickleError("takes a value from an empty stack")
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Value]:
        return [self.pop() for _ in range(count)][::-1]

    def pop_to_mark(self) -> list[Value]:
        if not self.marks:
            raise UnsafePickleError("closes a group that was never opened")
        at = self.marks.pop()
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def top(self, kind: type) -> Value:
        floor = self.marks[-1] if self.marks else 0
        if len(self.stack) <= floor or type(self.stack[-1]) is not kind:
            raise UnsafePickleError(f"adds to something that is not a {kind.__name__}")
        return self.stack[-1]

    def set_items(self, target: dict[str, Value], flat: list[Value]) -> None:
        """Keys must be text: numbers and tuples as keys can be made to collide, text cannot."""
        if len(flat) % 2:
            raise UnsafePickleError("has a dictionary key without a value")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if type(key) is not str:
                raise UnsafePickleError(f"has a dictionary key of type {type(key).__name__}")
            target[key] = value

    def new_dict(self) -> None:
        made: dict[str, Value] = {}
        self.set_items(made, self.pop_to_mark())
        self.stack.append(made)

    def put(self, index: int) -> None:
        if not self.stack:
            raise UnsafePickleError("stores a value from an empty stack")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise UnsafePickleError(f"recalls value {index}, which was never stored")
        self.stack.append(self.memo[index])

    def append(self) -> None:
        value = self.pop()
        self.top(list).append(value)

    def appends(self) -> None:
        values = self.pop_to_mark()
        self.top(list).extend(values)

    def set_item(self) -> None:
        flat = self.pop_many(2)
        self.set_items(self.top(dict), flat)

    def set_item_group(self) -> None:
        flat = self.pop_to_mark()
        self.set_items(self.top(dict), flat)


Action = Callable[[_Machine, Any], None]

# The whole instruction set. Missing on purpose: everything that imports (GLOBAL, STACK_GLOBAL, INST),
# calls (REDUCE, OBJ, NEWOBJ), sets state (BUILD), asks the caller (PERSID, EXT1, NEXT_BUFFER), and
# bytes, sets and stack tricks, which no plain record needs.
_ACTIONS: dict[str, Action] = {
    **dict.fromkeys(("PROTO", "FRAME"), _Machine.ignore),
    **dict.fromkeys(
        ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _Machine.push
    ),
    **dict.fromkeys(("FLOAT", "BINFLOAT"), _Machine.push),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _Machine.push),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "LIST": lambda m, _: m.stack.append(m.pop_to_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.pop_many(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.pop_many(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.pop_many(3))),
    "DICT": lambda m, _: m.new_dict(),
    "APPEND": lambda m, _: m.append(),
    "APPENDS": lambda m, _: m.appends(),
    "SETITEM": lambda m, _: m.set_item(),
    "SETITEMS": lambda m, _: m.set_item_group(),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
}
_NAMES = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_READERS: dict[str, Callable[[BytesIO], Any] | None] = {
    opcode.name: opcode.arg.reader if opcode.arg else None for opcode in pickletools.opcodes
}


def load_plain_data(content: bytes) -> Value:
    """The value that a plain-data pickle (protocols 0 to 5) describes.

    Raises UnsafePickleError, naming byte and instruction, for everything else: unknown or active
    instructions (before their argument is even read), truncated or over-long streams, lengths
    beyond the end, bytes after the end, self-containing values and values that expand beyond
    `MAX_NODES` or `MAX_DEPTH`.
    """
    if len(content) > MAX_BYTES:
        raise UnsafePickleError(f"has {len(content)} bytes, more than the limit of {MAX_BYTES}")
    machine = _Machine()
    stream = BytesIO(content)
    for _ in range(MAX_OPCODES):
        start = stream.tell()
        try:
            if not _step(machine, stream):
                break
        except UnsafePickleError as error:
            raise UnsafePickleError(f"at byte {start}: {error}") from None
        except (ValueError, OverflowError) as error:
            raise UnsafePickleError(
                f"damaged or cut off at byte {start}: {str(error)[:200]}"
            ) from None
    else:
        raise UnsafePickleError(f"has more than {MAX_OPCODES} instructions")
    if len(machine.stack) != 1 or machine.marks:
        raise UnsafePickleError("ends with values left over or with none")
    if stream.tell() != len(content):
        raise UnsafePickleError(f"goes on for {len(content) - stream.tell()} bytes after its end")
    check_shape(machine.stack[0])
    return machine.stack[0]


def _step(machine: _Machine, stream: BytesIO) -> bool:
    """Carry out the next instruction; False at the end of the program."""
    code = stream.read(1)
    if not code:
        raise UnsafePickleError("cut off: the file ends before the pickle does")
    name = _NAMES.get(code[0])
    if name is None:
        raise UnsafePickleError(f"{code!r} is no pickle instruction")
    if name == "STOP":
        return False
    action = _ACTIONS.get(name)
    if action is None:
        raise UnsafePickleError(f"instruction {name} is not one of plain data; refused")
    reader = _READERS[name]
    action(machine, reader(stream) if reader else None)
    return True


def check_shape(value: Value) -> None:
    """Refuse values nested deeper than `MAX_DEPTH` (self-containing ones are endlessly deep) or
    with more than `MAX_NODES` members when every shared part is counted each time it appears.
    """
    level, seen = [value], 0
    for _ in range(MAX_DEPTH):
        below: list[Value] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.values())
            elif isinstance(node, list | tuple):
                below.extend(node)
            if seen + len(below) > MAX_NODES:
                raise UnsafePickleError(f"expands to more than {MAX_NODES} values")
        seen += len(below)
        level = below
        if not level:
            return
    raise UnsafePickleError(f"is nested deeper than {MAX_DEPTH} or contains itself")
