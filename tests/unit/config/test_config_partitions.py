"""Parts of partition keys in the configuration: on assets, of watchers, and as jobs name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.errors import ConfigurationInvalid
from config.models import Configuration
from config.models.assets import parts_by_asset
from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary
from watcher.features.isolation.asked_classes import AskedClasses
from watcher.features.isolation.inquiries import Inquirer

pytestmark = pytest.mark.feature("partitions")

ASSETS = """
assets:
  orders: {partition: [day, region]}
  returns: {partition: [day]}
  plain:
"""


def job(schedule: str, batch: str) -> str:
    return f"{ASSETS}jobs:\n  load: {{schedule: {schedule}, batch: {batch}, spark: {{application: load.py}}}}\n"


def test_parts_are_read(load_text: Callable[..., Configuration]) -> None:
    configuration = load_text(job("{all: [orders, returns]}", "{mode: per_partition, by: day}"))
    assert parts_by_asset(configuration.assets)["orders"] == ("day", "region")
    assert parts_by_asset(configuration.assets)["plain"] is None
    assert configuration.jobs["load"].batch.by == ("day",)


@pytest.mark.parametrize(
    ("schedule", "batch"),
    [
        ("{any: [orders, plain]}", "{mode: per_partition, by: [region, day]}"),
        ("{any: [orders, plain]}", "{mode: per_partition}"),
        ("plain", "{mode: per_partition}"),
        ("[plain, plain]", "{mode: per_partition}"),
        ("{cron: '0 6 * * *'}", "{mode: per_partition}"),
        ("[orders, returns]", "{mode: per_partition, by: day, complete: {region: [us, eu], at_least: 1}}"),
        ("plain", "{mode: per_partition, complete: {items: 3}}"),
        ("plain", "{mode: per_partition, complete: {items: 3, again: true}}"),
        ("orders", "{mode: per_partition, by: day, complete: {region: [us, eu], at_least: 1, again: true}}"),
    ],
)
def test_what_goes_together(load_text: Callable[..., Configuration], schedule: str, batch: str) -> None:
    load_text(job(schedule, batch))


@pytest.mark.parametrize(
    ("schedule", "batch", "sentence"),
    [
        ("orders", "{by: day}", "has no effect without `mode: per_partition`; remove it, or set the mode"),
        ("orders", "{mode: per_partition, by: dya}", "unknown part `dya`; did you mean `day`?"),
        (
            "plain",
            "{mode: per_partition, by: day}",
            "unknown part `day`; name parts in `partition` of the asset or its watchers",
        ),
        ("orders", "{mode: per_partition, by: []}", "must name at least one part, and none twice"),
        ("orders", "{mode: per_partition, by: [day, day]}", "must name at least one part, and none twice"),
        ("[orders, plain]", "{mode: per_partition, by: day}", "the asset `plain` has no part `day`"),
        (
            "[orders, returns]",
            "{mode: per_partition}",
            "have different parts of partition keys (orders: day and region, returns: day)",
        ),
        ("orders", "{complete: {items: 2}}", "has no effect without `mode: per_partition`"),
        ("orders", "{mode: per_partition, by: day, complete: {regoin: [us]}}", "unknown part `regoin`; did you mean"),
        (
            "orders",
            "{mode: per_partition, by: region, complete: {region: [us]}}",
            "waits for values of `region` within",
        ),
        ("orders", "{mode: per_partition, complete: {region: [us]}}", "waits for values of `region` within one value"),
        ("{cron: '0 6 * * *'}", "{mode: per_partition, complete: {items: 3}}", "needs a schedule of assets"),
        ("orders", "{mode: per_partition, by: day, complete: {region: []}}", "must list the values of region as texts"),
        ("orders", "{mode: per_partition, by: day, complete: {region: [us, us]}}", "lists a value of region twice"),
        ("orders", "{mode: per_partition, by: day, complete: {region: [us], at_least: 2}}", "from 1 to 1"),
        (
            "orders",
            "{mode: per_partition, complete: {marker: _SUCCESS}}",
            "no `last` of the scheduled assets' watchers has it",
        ),
        ("plain", "{mode: per_partition, complete: {marker: ''}}", "must be `{part: [value, …]}`"),
        ("plain", "{mode: per_partition, complete: {manifest: ' '}}", "must be `{part: [value, …]}`"),
        ("plain", "{mode: per_partition, complete: {manifest: x, items: 2}}", "must be `{part: [value, …]}`"),
        (
            "orders",
            "{mode: per_partition, complete: {manifest: '*.list'}}",
            "waits for a manifest, and no `last` of the scheduled assets' watchers has it",
        ),
        ("orders", "{mode: per_partition, by: day, complete: {items: 0}}", "`items` must be a whole number from 1"),
        ("orders", "{mode: per_partition, by: day, complete: {items: 1, at_least: 1}}", "must be `{part: [value, …]}`"),
        ("plain", "{mode: per_partition, complete: {again: true}}", "must be `{part: [value, …]}`"),
        ("plain", "{mode: per_partition, complete: {items: 1, again: 1}}", "must be `{part: [value, …]}`"),
        ("plain", "{mode: per_partition, complete: {again: [us]}}", "unknown part `again`"),
        ("orders", "{mode: per_partition, by: day, complete: all}", "must be `{part: [value, …]}`"),
        ("{any: [plain, [orders, plain]]}", "{mode: per_partition}", "(orders: day and region, plain: none)"),
    ],
)
def test_what_does_not_go_together_is_refused(
    problems: Callable[..., list[str]], schedule: str, batch: str, sentence: str
) -> None:
    (problem,) = problems(job(schedule, batch))
    assert sentence in problem


WATCHED = """
assets:
  orders:
    uri: file:///tmp/orders
    {own}
    watchers:
      one: {{trigger: file.new_files, partition: {one}}}
      two: {{trigger: file.new_files, partition: {two}}}
"""


@pytest.mark.parametrize(
    ("own", "one", "two"),
    [
        ("", '{day: "dt={}", region: "r={}"}', '{region: "r={}", day: "dt={}"}'),
        ("partition: [day]", '{day: "dt={}"}', '{date: "dt={}"}'),
    ],
)
def test_the_watchers_of_an_asset_agree_on_its_parts(
    write: Callable[[str], Path], own: str, one: str, two: str
) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        load(write(WATCHED.format(own=own, one=one, two=two)), vocabulary(AskedClasses(Inquirer())), {})
    (problem,) = refused.value.problems
    assert problem.path == "assets.orders.watchers.two.partition"
    assert "names other parts than the asset, which has day" in str(problem)


def test_an_asset_has_the_parts_of_its_watchers(write: Callable[[str], Path]) -> None:
    text = WATCHED.format(own="", one='{day: "dt={}", region: "r={}"}', two='"dt={dt}"')
    configuration = load(write(text), vocabulary(AskedClasses(Inquirer())), {})
    assert parts_by_asset(configuration.assets)["orders"] == ("day", "region")


@pytest.mark.parametrize(
    ("complete", "deadline", "warns"),
    [
        ("{items: 3, again: true}", "", True),
        ("{items: 3, again: true}", "deadline: {by: '06:00'}, ", True),
        ("{items: 3, again: true}", "deadline: 2h, ", False),
        ("{items: 3, again: true}", "deadline: {after: 2h, then: run}, ", False),
        ("{items: 3, again: false}", "", False),
        ("{items: 3}", "", False),
    ],
)
def test_a_partition_that_may_be_delivered_again_needs_a_deadline_or_there_is_a_warning(
    load_text: Callable[..., Configuration], complete: str, deadline: str, warns: bool
) -> None:
    text = job("plain", f"{{mode: per_partition, complete: {complete}}}").replace("batch:", f"{deadline}batch:")
    configuration = load_text(text)
    assert ["a file that comes alone waits for ever" in str(each) for each in configuration.warnings] == [True] * warns
    (batch,) = (each.batch for each in configuration.jobs.values())
    again = {"again": True} if "true" in complete else {}
    assert batch.model_dump(mode="json")["complete"] == {"items": 3, **again}


def test_a_deadline_runs_partitions_that_may_be_incomplete(load_text: Callable[..., Configuration]) -> None:
    text = job("plain", "{mode: per_partition, complete: {items: 3}}").replace(
        "spark:", "deadline: {after: 2h, then: run}, spark:"
    )
    assert load_text(text).jobs["load"].clock_deadline.then == "run"
    with pytest.raises(ConfigurationInvalid, match=r"needs `batch\.complete`"):
        load_text(text.replace(", complete: {items: 3}", ""))
    with pytest.raises(ConfigurationInvalid, match="`then: run` needs `after`"):
        load_text(text.replace("after: 2h", "by: '07:00'"))


def test_a_marker_needs_a_watcher_that_reports_it_last(write: Callable[[str], Path]) -> None:
    text = """
assets: {orders: {watchers: {files: {trigger: file.new_files, path: in, last: [_SUCCESS]}}}, plain: }
jobs: {load: {schedule: {any: [plain, orders]}, batch: {mode: per_partition, complete: {marker: _SUCCESS}}, spark: {application: load.py}}}
"""
    batch = load(write(text), vocabulary(AskedClasses(Inquirer())), {}).jobs["load"].batch
    assert batch.complete is not None
    assert batch.complete.marker == "_SUCCESS"
    with pytest.raises(ConfigurationInvalid, match=r'give a watcher of files `last: \["_SUCCESS"\]`'):
        load(write(text.replace("{any: [plain, orders]}", "plain")), vocabulary(AskedClasses(Inquirer())), {})
    with pytest.raises(ConfigurationInvalid, match="has it; give a watcher"):
        load(write(text.replace("last: [_SUCCESS]", "last: ['**/_DONE']")), vocabulary(AskedClasses(Inquirer())), {})
    load(write(text.replace("last: [_SUCCESS]", "last: ['**/_*']")), vocabulary(AskedClasses(Inquirer())), {})


WITH_MANIFESTS = """
assets:
  orders:
    watchers:
      files: {trigger: file.new_files, path: in, last: ["**/*.list", _DONE]}
      others: {trigger: file.new_files, path: out}
      apart: {trigger: file.new_files, path: apart, last: ["all.*"], isolation: process}
  plain:
    watchers: {alone: {trigger: file.new_files, path: alone, last: ["*.list"]}}
aliases: {either: }
jobs:
  load: {schedule: orders, batch: {mode: per_partition, complete: {manifest: "day=*/*.list"}}, spark: {application: load.py}}
"""


def test_a_watcher_reads_the_manifests_that_jobs_wait_for(write: Callable[[str], Path]) -> None:
    def manifests(text: str) -> dict[str, tuple[str, ...]]:
        return {
            name: watcher.manifests
            for name, watcher in load(write(text), vocabulary(AskedClasses(Inquirer())), {}).watchers.items()
        }

    other = "other: {schedule: [orders, plain], batch: {mode: per_partition, complete: {manifest: all.list}}, spark: {application: load.py}}"
    nobody: tuple[str, ...] = ()
    one = {"files": ("day=*/*.list",), "others": nobody, "apart": nobody, "alone": nobody}
    assert manifests(WITH_MANIFESTS) == one
    both = {"files": ("all.list", "day=*/*.list"), "others": nobody, "apart": ("all.list",), "alone": ("all.list",)}
    assert manifests(f"{WITH_MANIFESTS}  {other}\n") == both
    alias = WITH_MANIFESTS.replace("schedule: orders", "schedule: {any: [orders, {alias: either}]}")
    assert manifests(alias) == {**one, "alone": ("day=*/*.list",)}
    further = WITH_MANIFESTS.replace("path: alone,", 'path: alone, assets: {orders: "orders/**"},')
    assert manifests(further) == {**one, "alone": ("day=*/*.list",)}, "it has events of the job's asset"
    with pytest.raises(ConfigurationInvalid, match="is not a key"):
        load(
            write(WITH_MANIFESTS.replace("path: in,", "path: in, manifests: [x],")),
            vocabulary(AskedClasses(Inquirer())),
            {},
        )


def test_a_job_that_waits_for_a_manifest_changes_what_its_watchers_are(write: Callable[[str], Path]) -> None:
    def definitions(text: str) -> dict[str, str]:
        return load(write(text), vocabulary(AskedClasses(Inquirer())), {}).definitions

    marker = WITH_MANIFESTS.replace('{manifest: "day=*/*.list"}', "{marker: _DONE}")
    before, after = definitions(marker), definitions(WITH_MANIFESTS)
    assert {name for name in before if before[name] != after[name]} == {"files"}
