"""Divide the work among tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeVar

from asset_job.sources.request import SourceFile

T = TypeVar("T")
File = TypeVar("File", bound=SourceFile)
_OPENING_COSTS: Final = 1 << 20
"""The cost of opening a file, in bytes that could be read meanwhile, so that very many small files make more than one task."""
SMALLEST_PART: Final = 8 << 20
"""Bytes of the smallest part that is worth a request and a task of its own."""


def split_files(
    files: Iterable[File],
    *,
    tasks: int,
    most: int,
    may_divide: Callable[[File], bool],
    places: Callable[[File, Sequence[int]], Sequence[int]] = lambda _, best: best,
) -> list[list[File]]:
    """Divide files, in their order, into shares of about the same number of bytes, which is at most `most`.

    The number of shares is a multiple of `tasks`, so that all tasks end at about the same time. A file is cut where one share
    ends and the next begins, unless that leaves a part that is too small; or at the `places` near these, which may be fewer.
    Only files that would be cut are asked for by `may_divide`, which may look into them.
    """
    costs = [(file, file.size + _OPENING_COSTS) for file in files]
    total = sum(cost for _, cost in costs)
    tasks = max(tasks, 1)
    count = tasks * -(-total // (most * tasks))
    shares: list[list[File]] = [[] for _ in range(count)]
    done = 0
    for file, cost in costs:
        first, last = done * count // total, (done + cost) * count // total
        ends = [at * total // count - done - _OPENING_COSTS for at in range(first + 1, last + 1)]
        for part, begin, end in _divided(file, ends, may_divide, places):
            twice_its_middle = 2 * done + _OPENING_COSTS + begin + end
            shares[twice_its_middle * count // (2 * total)].append(part)
        done += cost
    return [share for share in shares if share]


def _divided(
    file: File,
    ends: Iterable[int],
    may_divide: Callable[[File], bool],
    places: Callable[[File, Sequence[int]], Sequence[int]],
) -> Iterator[tuple[File, int, int]]:
    """The parts of a file, each with the bytes at which it begins and ends."""
    cuts = [0]
    for end in ends:
        if end - cuts[-1] >= SMALLEST_PART <= file.size - end:
            cuts.append(end)
    cuts[1:] = places(file, cuts[1:]) if len(cuts) > 1 and may_divide(file) else ()
    for begin, end in pairwise([*cuts, file.size]):
        yield (file if len(cuts) == 1 else replace(file, part=(begin, end))), begin, end


def merged(ranges: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Ranges of the same ids, ascending and without overlap. Ranges that touch become one."""
    disjoint: list[tuple[int, int]] = []
    for low, high in sorted((low, high) for low, high in ranges):
        if disjoint and low <= disjoint[-1][1] + 1:
            disjoint[-1] = (disjoint[-1][0], max(disjoint[-1][1], high))
        else:
            disjoint.append((low, high))
    return disjoint


def split_ranges(
    ranges: Sequence[tuple[int, int]], *, tasks: int, most_ids: int, most_ranges: int
) -> list[list[tuple[int, int]]]:
    """Divide merged ranges into shares of at most `most_ids` ids and `most_ranges` ranges. Ranges are cut if necessary."""
    total = sum(high - low + 1 for low, high in ranges)
    share = max(1, min(most_ids, -(-total // max(tasks, 1))))
    shares: list[list[tuple[int, int]]] = []
    room = 0
    for first, high in ranges:
        low = first
        while low <= high:
            if room == 0 or len(shares[-1]) == most_ranges:
                shares.append([])
                room = share
            last = min(high, low + room - 1)
            shares[-1].append((low, last))
            room -= last - low + 1
            low = last + 1
    return shares


def chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide items, in their order, into sequences of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]
