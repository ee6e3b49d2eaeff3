"""A random history of one place with files, and what its watcher made of it, compared with what docs/files.md says."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.torture.places import Place
from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerBatch
from triggers.errors import SourceCopied
from triggers.file_scan.matching import Matcher
from triggers.file_scan.rules.copies import FEWEST
from triggers.hosting import Reselects

STEPS = 40


@dataclass(kw_only=True)
class History:
    """One place, one watcher that is killed now and then, the people who decide, and what was reported."""

    place: Place
    mode: str
    dice: Random
    patterns: Sequence[str | None]
    """What reloads make it select."""
    host: DictHost = field(default_factory=DictHost)
    batches: AsyncGenerator[TriggerBatch, None] | None = None
    match: str | None = None
    """What the watcher selects now."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened, and what should not have: `silent`, `endless`, `unasked`, `again`."""
    there: int = 0
    """The selected files that were there at the last whole poll of the whole place."""
    copies: int = 0
    """The copies that had been made when it was last whole and without the finding `vanished`."""
    contents: set[Hashable] = field(default_factory=set)
    """The contents that were reported and are handled."""
    adopted: set[Hashable] = field(default_factory=set)
    """The versions that may have been copies when a person decided that copies count as handled."""
    again: Counter[Hashable] = field(default_factory=Counter)
    """How often a person had each version reported again."""
    is_over: bool = False
    """Nothing happens any more, and nobody waits."""
    is_decided: bool = False
    """A person has decided, and nothing has happened since."""

    async def play(self) -> None:
        for _ in range(STEPS):
            self.place.happen(self.dice)
            self.is_decided = False
            if self.dice.random() < 0.08:
                await self.reload(self.dice.choice(self.patterns))
            for _ in range(self.dice.randint(1, 100) if self.dice.random() < 0.02 else self.dice.choice([0, 1, 1, 2])):
                await self.poll(kill=self.dice.random() < 0.1)
        await self.reload(None)
        self.place.heal()
        self.is_over = True
        for _ in range(4):
            await self.poll(kill=False)
        await self.kill()

    async def poll(self, *, kill: bool) -> None:
        """Poll to the end, unless the watcher is killed before or after a commit, or copies block it."""
        stored, before = self.host.stored, len(self.host.files)
        is_resumed = self.batches is None and stored is not None and stored.state["cursor"] is not None
        adopts = stored is not None and stored.state.get("adopts") is True
        if self.batches is None:
            self.batches = self.place.trigger(self.mode, self.match).events(stored)
        try:
            is_whole = await self._commit_all(kill=kill, is_resumed=is_resumed)
        except SourceCopied as blocked:
            self.counts[blocked.finding.check] += 1
            self.batches = None
            await self._decide()
        else:
            if is_whole and not is_resumed:
                self._count_unasked(before)
        if adopts:
            self.adopted |= self.place.listed()
        self.contents |= {self.place.content(self.place.named(file)) for file in self.host.files[before:]}

    async def _commit_all(self, *, kill: bool, is_resumed: bool) -> bool:
        """Return whether the poll came to its end."""
        assert self.batches is not None
        async for batch in self.batches:
            if kill and self.dice.random() < 0.3:
                await self.kill()
                return False
            if batch.position is None:
                self._check_findings(batch, is_resumed=is_resumed)
                return True
            self.host.commit(batch.position, batch.events)
            if kill and self.dice.random() < 0.5:
                await self.kill()
                return False
        raise AssertionError("the trigger ended")

    async def _decide(self) -> None:
        """Let a person keep what was handled, report all again, or wait, perhaps until all is as it was."""
        self.counts["again"] += self.is_decided
        decision = self.dice.choice(["here", "here", "here", "start", *(["wait", "wait"] * (not self.is_over))])
        if decision == "wait":
            return
        self.counts[decision] += 1
        trigger = self.place.trigger(self.mode, self.match)
        self.host.commit(trigger.rewound(self.host.stored, decision))
        self.is_decided = True
        if decision == "start":
            self.contents.clear()
            self.again.update({*map(self.place.named, self.host.files), *self.place.listed()})
            self.there = 0

    async def reload(self, match: str | None) -> None:
        """Change the pattern. A person decides for `here` after a while, or goes back to the one of before."""
        if match == self.match:
            return
        await self.kill()
        self.counts["reloads"] += 1
        self.there, self.is_decided = 0, False
        trigger, before = self.place.trigger(self.mode, match), self.place.trigger(self.mode, self.match)
        if (stored := self.host.stored) is None:
            self.match = match
            return
        assert isinstance(trigger, Reselects)
        assert trigger.reselects(before.source_identity())
        for _ in range(self.dice.choice([0, 1, 5])):
            self.place.happen(self.dice)
        if match is None or self.dice.random() < 0.8:
            self.host.commit(trigger.rewound(stored, "here"))
            self.match = match

    def _check_findings(self, batch: TriggerBatch, *, is_resumed: bool) -> None:
        """Compare the findings after a whole poll with what became of the place."""
        if is_resumed:  # the next poll can tell
            return
        is_shown = any(finding.check == "vanished" for finding in batch.findings or ())
        if self.place.is_lost:
            self.counts["masses"] += self.there >= FEWEST
            self.counts["silent"] += self.there >= FEWEST and not is_shown
        elif self.place.is_whole:
            matches = Matcher.of(match=self.match, regex=None)
            self.there = sum(matches(str(self.place.content(version)[0])) for version in self.place.listed())  # type: ignore[index]
            if not is_shown:
                self.copies = self.place.copies
            is_over = self.there > 0 and self.place.copies == self.copies
            self.counts["endless"] += is_shown and is_over

    def _count_unasked(self, before: int) -> None:
        """Count the whole polls that reported many copies without a question."""
        reported = [self.place.content(self.place.named(file)) for file in self.host.files[before:]]
        copies = sum(content in self.contents for content in reported)
        self.counts["unasked"] += len(reported) >= FEWEST and 2 * copies >= len(reported)
        self.counts["few_copies"] += copies > 0

    async def kill(self) -> None:
        if self.batches is not None:
            await self.batches.aclose()
            self.batches = None
            self.counts["kills"] += 1

    @property
    def outcome(self) -> Counter[str]:
        reported = Counter(self.place.named(file) for file in self.host.files)
        contents = {*map(self.place.content, reported)}
        repeats = (times - 1 - self.place.moved_in[each] - self.again[each] for each, times in reported.items())
        kept = {each for each in self.adopted if self.place.content(each) in contents}
        lost = self.place.listed() - reported.keys() - kept
        numbers = {"files": len(reported), "lost": len(lost), "repeated": sum(max(0, each) for each in repeats)}
        return Counter(numbers) + self.counts
