"""Arrays as kernels see them in `simulator`: every use of an element is checked.

Time is counted in stamps: a thread's run from one barrier to the next has a stamp of its own, and
later runs have higher ones. An element keeps the stamps of its last uses; they tell whether a use
is in a race with one before. Races are symmetric, so that the order of the threads does not matter:
the later use finds the earlier one.
"""

import inspect
import linecache
import os
import sys
import weakref
from ctypes import c_byte
from itertools import count, islice
from operator import index

import numpy as np


class SimulatorError(Exception):
    """Something that a kernel may not do."""


class BoundsError(SimulatorError):
    """An index or a slice that is not within 0 .. length; nothing wraps around or is cut off."""


class DivergenceError(SimulatorError):
    """A thread waits at a barrier, while another one has ended or waits elsewhere."""


class RaceError(SimulatorError):
    """Two threads use an element between two barriers, or two blocks in a launch; one writes."""


class UnwrittenError(SimulatorError):
    """A read of an element that nobody wrote."""


class Conflict(Exception):  # noqa: N818, `simulator` makes a RaceError of it
    """A use of element `e` that is in a race with a former one, of a verb and a stamp."""

    def __init__(self, memory, e, verb, stamp):
        self.element, self.former = (memory.number, e), [verb, stamp]


class Point:
    """`cuda.threadIdx` and its like; those of the running thread, as one runs at a time."""

    __slots__ = ("x", "y", "z")

    def set(self, point):
        self.x, self.y, self.z = point

    def name(self, sizes):
        if sizes.y == sizes.z == 1:
            return str(self.x)
        return str((self.x, self.y) if sizes.z == 1 else (self.x, self.y, self.z))


class State:
    """What runs: the launch, and the stamp `now`.

    `epoch` is the first stamp since the last barrier, `block` the block's first one. What happened
    before the launch has stamp 0, what never happened -1.
    """

    __slots__ = ("block", "epoch", "launch", "now")

    def __init__(self):
        self.launch = None


state = State()
thread_index, block_index, block_size, grid_size = Point(), Point(), Point(), Point()


def running_thread():
    return f"thread {thread_index.name(block_size)} of block {block_index.name(grid_size)}"


def place(frame):
    """A stack of instructions, innermost first. Their lines are looked up for errors alone."""
    instructions = []
    while frame is not None:
        instructions += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return tuple(instructions)


def line(code, instruction):
    number = next(islice(code.co_positions(), instruction // 2, None))[0]
    text = linecache.getline(code.co_filename, number).strip()
    return f"{os.path.basename(code.co_filename)}:{number}, in {code.co_name}: {text}"


def lines(place):
    ours = os.path.join(os.path.dirname(__file__), "simulator")
    instructions = zip(place[::2], place[1::2], strict=True)
    return "".join(
        f"\n    {line(code, instruction)}"
        for code, instruction in instructions
        if not code.co_filename.startswith(ours)
    )


class Array:
    """Elements `first .. first + size` of `values`, a list or a numpy array.

    `whole` is the array of which this one is a slice, or itself. It was `made` as an argument of
    this name, or by this instruction.
    """

    __slots__ = ("first", "made", "size", "type", "values", "whole")
    __iter__ = None

    def __init__(self, values, type, made, first, size):
        self.values, self.type, self.made = values, type, made
        self.first, self.size, self.whole = first, size, self

    def __len__(self):
        return self.size

    @property
    def shape(self):
        return (self.size,)

    @property
    def dtype(self):
        return np.dtype(self.type)

    @property
    def name(self):
        made = self.whole.made
        return f"argument {made!r}" if isinstance(made, str) else f"{self.kind} ({line(*made)})"

    def element(self, e):
        return f"{self.name}, element {e - self.whole.first}"

    def slice(self, part):
        start = 0 if part.start is None else index(part.start)
        stop = self.size if part.stop is None else index(part.stop)
        if part.step is not None:
            raise TypeError(f"slices of a step are not simulated, got {part}.")
        if not 0 <= start <= stop <= self.size:
            self.outside(f"{start}:{stop}")
        return self.sliced(self.first + start, stop - start)

    def outside(self, i):
        self.refuse(BoundsError, f"uses [{i}] of an array of {self.size}: {self.name}")

    def unwritten(self, e):
        self.refuse(UnwrittenError, f"reads what nobody wrote yet: {self.element(e)}")

    def refuse(self, error, what):
        where = lines(place(sys._getframe()))
        raise error(f"kernel {state.launch}: {running_thread()} {what}{where}")


# Uses of elements are the inner loop of every test: what is checked is written out, without calls.


class LocalArray(Array):
    """An array of one thread; None is what nobody wrote."""

    __slots__ = ()
    kind = "local array"

    def sliced(self, first, size):
        part = LocalArray(self.values, self.type, None, first, size)
        part.whole = self.whole
        return part

    def __getitem__(self, i):
        if i.__class__ is not int:
            if i.__class__ is slice:
                return self.slice(i)
            i = index(i)
        if not 0 <= i < self.size:
            self.outside(i)
        value = self.values[self.first + i]
        if value is None:
            self.unwritten(self.first + i)
        return value

    def __setitem__(self, i, value):
        if i.__class__ is not int:
            i = index(i)
        if not 0 <= i < self.size:
            self.outside(i)
        self.values[self.first + i] = value if value.__class__ is self.type else self.type(value)


class Memory:
    """The last uses of elements; of one array, or of all that share memory.

    written, read    stamps of the last write and the last read
    former           of the read before: by another thread, or before a barrier
    foreign          of the last read by another block
    """

    __slots__ = ("foreign", "former", "number", "read", "written")

    def __init__(self, number, written):
        self.number, self.written = number, written
        self.read, self.former, self.foreign = ([0] * len(written) for _ in range(3))


class RecordedArray(Array):
    """An array of many threads."""

    __slots__ = ("memory", "read", "written")
    kind = "shared array"

    def __init__(self, memory, *array):
        super().__init__(*array)
        self.memory, self.read, self.written = memory, memory.read, memory.written

    def sliced(self, first, size):
        part = self.__class__.__new__(self.__class__)
        part.values, part.type, part.whole = self.values, self.type, self.whole
        part.memory, part.read, part.written = self.memory, self.read, self.written
        part.first, part.size = first, size
        return part

    def __getitem__(self, i):
        if i.__class__ is not int:
            if i.__class__ is slice:
                return self.slice(i)
            i = index(i)
        if not 0 <= i < self.size:
            self.outside(i)
        e = self.first + i
        now = state.now
        read = self.read[e]
        if read != now:
            written = self.written[e]
            if written and written != now and not state.block <= written < state.epoch:
                if written < 0:
                    self.unwritten(e)
                raise Conflict(self.memory, e, "writes", written)
            if read:
                self.memory.former[e] = read
                if read < state.block:
                    self.memory.foreign[e] = read
            self.read[e] = now
        return self.values[e]

    def __setitem__(self, i, value):
        if i.__class__ is not int:
            i = index(i)
        if not 0 <= i < self.size:
            self.outside(i)
        e = self.first + i
        now = state.now
        written = self.written[e]
        if written != now:
            if written > 0 and not state.block <= written < state.epoch:
                raise Conflict(self.memory, e, "writes", written)
            read = self.read[e]
            if read:
                if read == now:
                    read = self.memory.former[e]
                if read and not state.block <= read < state.epoch:
                    raise Conflict(self.memory, e, "reads", read)
                if self.memory.foreign[e]:
                    raise Conflict(self.memory, e, "reads", self.memory.foreign[e])
            self.written[e] = now
        self.values[e] = value if value.__class__ is self.type else self.type(value)


class WatchedArray(RecordedArray):
    """A recorded array that also lists who uses one element, and where."""

    __slots__ = ()

    def __getitem__(self, i):
        if i.__class__ is not slice:
            self.watch(i, "reads")
        return super().__getitem__(i)

    def __setitem__(self, i, value):
        self.watch(i, "writes")
        super().__setitem__(i, value)

    def watch(self, i, verb):
        e = self.first + index(i)
        arrays = state.launch.arrays
        if (self.memory.number, e) == arrays.watched:
            use = f"{running_thread()} {verb} {self.element(e)}{lines(place(sys._getframe()))}"
            arrays.uses.append((verb, state.now, use))


def garbage(dtype):
    """What memory holds that nobody wrote: values that nobody takes for right ones."""
    if dtype.kind in "fc":
        return np.nan
    return dtype.kind == "b" or np.iinfo(dtype).max


def address(array):
    return array.__array_interface__["data"][0]


class UnwrittenElements:
    """Those of arrays made by `cuda.device_array`, across launches."""

    def __init__(self):
        self.arrays = {}

    def add(self, array):
        array.fill(garbage(array.dtype))
        key = id(array)
        gone = weakref.ref(array, lambda _: self.arrays.pop(key, None))
        self.arrays[key] = gone, np.ones(array.size, bool)

    def of(self, array):
        """A view of the array's elements: whether they were never written. None if all were."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) not in self.arrays:
            return None
        if array.itemsize != owner.itemsize or not array.flags.c_contiguous:
            del self.arrays[id(owner)]  # better no error than a wrong one
            return None
        first = (address(array) - address(owner)) // owner.itemsize
        return self.arrays[id(owner)][1][first : first + array.size].reshape(array.shape)

    def discard(self, array, where=...):
        flags = self.of(array)
        if flags is not None:
            flags[where] = False


unwritten = UnwrittenElements()


def is_array(arg):
    return isinstance(arg, np.ndarray) and arg.ndim > 0


class Arguments:
    """The arguments of a kernel by name, with tuples taken apart: `train[0]`, `train[1]`, ..

    `structure` is the tuple of the arguments as they were given.
    """

    def __init__(self, named, structure):
        self.named, self.structure = named, structure

    @classmethod
    def given(cls, fn, args):
        """Name arguments by the parameters of a function."""
        named = {}

        def name_parts(name, arg):
            if isinstance(arg, tuple):
                for i, part in enumerate(arg):
                    name_parts(f"{name}[{i}]", part)
            else:
                named[name] = arg

        for name, arg in inspect.signature(fn).bind(*args).arguments.items():
            name_parts(name, arg)
        return cls(named, tuple(args))

    @property
    def arrays(self):
        return [arg for arg in self.named.values() if is_array(arg)]

    def changed(self, function):
        """Arguments with a function applied to each, tuples taken apart."""
        return Arguments({name: function(arg) for name, arg in self.named.items()}, self.structure)

    def nested(self):
        """The arguments as a kernel takes them: tuples again."""
        values = iter(self.named.values())

        def nest(arg):
            return tuple(map(nest, arg)) if isinstance(arg, tuple) else next(values)

        return nest(self.structure)


class PlainArrays:
    """Arrays of numpy."""

    def recorded(self, args):
        return args

    def shared(self, size, dtype, made):
        return np.full(size, garbage(dtype), dtype)

    local = shared

    def note_written(self, args, _):
        for array in args.arrays:
            unwritten.discard(array)


def spans(arrays):
    """First byte and end of the arrays' memory, one span for those that overlap."""
    found = []
    for start, size in sorted((address(array), array.nbytes) for array in arrays):
        end = start + max(size, 1)
        if found and start < found[-1][1]:
            start, end = found[-1][0], max(found[-1][1], end)
            found.pop()
        found.append((start, end))
    return found


class RecordedArrays:
    """Recorded arrays; of an element to be `watched`, all `uses` are listed."""

    def __init__(self, watched=None):
        self.watched, self.uses = watched, []
        self.kind = RecordedArray if watched is None else WatchedArray
        # An element is known by its memory's number: launches that are repeated give the same.
        self.numbers = count()

    def shared(self, size, dtype, made):
        memory = Memory(next(self.numbers), [-1] * size)
        return self.kind(memory, [None] * size, dtype.type, made, 0, size)

    def local(self, size, dtype, made):
        return LocalArray([None] * size, dtype.type, made, 0, size)

    def recorded(self, args):
        memories = dict.fromkeys(spans(args.arrays))
        found = {
            name: self.argument(name, arg, memories) if is_array(arg) else arg
            for name, arg in args.named.items()
        }
        return Arguments(found, args.structure)

    def argument(self, name, array, memories):
        if array.ndim > 1 or not array.flags.c_contiguous:
            raise TypeError(f"argument {name!r} is not a flat contiguous array.")
        start, end = next(span for span in memories if span[0] <= address(array) < span[1])
        size = (end - start) // array.itemsize
        memory = memories[start, end] or Memory(next(self.numbers), [0] * size)
        memories[start, end] = memory
        first, rest = divmod(address(array) - start, array.itemsize)
        if rest or size != len(memory.written):
            raise TypeError(f"argument {name!r} shares memory with items of another size.")
        never = unwritten.of(array)
        if never is not None:
            memory.written[first : first + array.size] = np.where(never, -1, 0).tolist()
        values = np.ndarray(size, array.dtype, (c_byte * (end - start)).from_address(start))
        values.flags.writeable = array.flags.writeable
        return self.kind(memory, values, array.dtype.type, name, first, array.size)

    def note_written(self, args, recorded):
        for name, array in recorded.named.items():
            arg = args.named[name]
            never = unwritten.of(arg) if is_array(arg) else None
            if never is not None:
                never &= np.less(array.written[array.first : array.first + array.size], 0)
