"""Drivers as pods."""

from watcher.feature import Feature

FEATURE = Feature(
    name="kubernetes",
    needs=frozenset({"commands", "spark_submit"}),
    submitters={"kubernetes": "watcher.features.kubernetes.submitter.KubernetesPods"},
    settings="config.features.kubernetes.settings.KubernetesPart",
    commands={"kubernetes": "watcher.features.kubernetes.commands.kubernetes"},
    help_groups={"kubernetes": "operate"},
    start_check="watcher.features.kubernetes.cluster_check.check_at_start",
)
