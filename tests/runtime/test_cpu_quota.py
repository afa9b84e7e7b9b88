"""How many cores' time a container allows, read from control groups of either version."""

import pytest

from pipeline.runtime import cores
from pipeline.runtime.cpu_quota import cpu_quota


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def version_1(folder, quota):
    return {f"{folder}/cpu.cfs_quota_us": f"{quota}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("files", "own", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),  # as a container sees its own group
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b\n", 4),  # the one around it
        ({"a/cpu.max": "200000 100000", "a/b/cpu.max": "300000 100000"}, "0::/a/b\n", 2),  # the lowest
        ({"other/cpu.max": "100000 100000"}, "0::/a\n", None),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "50000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            "4:cpu,cpuacct:/\n",
            0.5,
        ),
        ({"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/x\n", None),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, "3:memory:/y\n4:cpu:/only/of/host", 3),
        ({"cpu.max": "100000 0\n"}, "0::/\n", None),
        ({"cpu.max": "many\n"}, "0::/\n", None),
        ({}, "", None),
        ({}, "no colon", None),
    ],
)
def test_the_lowest_quota_of_a_group_or_those_around_it_holds(tmp_path, files, own, expected):
    for name, text in files.items():
        write(tmp_path / "groups" / name, text)
    write(tmp_path / "own", own)
    write(tmp_path / "cpu.max", "100000 100000")  # not within the groups
    assert cpu_quota(tmp_path / "groups", tmp_path / "own") == expected


def test_without_control_groups_there_is_no_quota(tmp_path):
    assert cpu_quota(tmp_path, tmp_path / "missing") is None


@pytest.mark.parametrize(("quota", "expected"), [(None, 8), (0.5, 1), (1.5, 2), (3.0, 3), (64.0, 8)])
def test_a_part_of_a_core_counts_as_a_core_and_a_quota_makes_none(monkeypatch, quota, expected):
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "cpu_quota", lambda: quota)
    assert cores.usable_cores() == expected
