"""Drivers as pods."""

from watcher.feature import Feature

FEATURE = Feature(
    name="kubernetes",
    needs=frozenset({"spark_submit"}),
    submitters={"kubernetes": "watcher.submit.kubernetes.submitter.KubernetesPods"},
    settings="config.features.kubernetes.settings.KubernetesPart",
    commands={"kubernetes": "watcher.cli.kubernetes.kubernetes"},
    start_check="watcher.features.kubernetes.cluster_check.check_at_start",
)
