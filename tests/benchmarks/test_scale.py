"""The model of many hosts."""

import math

import pytest

import scale
from harness.report import replace_section

LINK = scale.Link(1e-5, 1e-9)
CLUSTER = scale.Cluster(LINK, scale.Link(1e-4, 1e-8), 4, 1e12)
MODEL = scale.Model(1e8, 10, 512, 1e5)


def test_parameters_are_found_again():
    points = [(n, 2 * (LINK.latency + n / 2 * LINK.per_byte)) for n in (8, 1 << 20, 1 << 28)]
    found = scale.fit(points, 2)
    assert found.latency == pytest.approx(LINK.latency, rel=1e-3) and found.per_byte == pytest.approx(LINK.per_byte, rel=1e-3)


def test_collectives_of_one_process_take_no_time():
    assert scale.all_reduce(CLUSTER, 1, 1e6) == scale.gather(CLUSTER, 1, 1e6) == 0
    assert all(scale.efficiency(way, MODEL, CLUSTER, 1) == pytest.approx(1) for way in scale.WAYS)


def test_rings_and_trees():
    assert scale.ring(LINK, 4, 4e6, 2) == pytest.approx(6 * (1e-5 + 1e-3))
    assert scale.tree(LINK, 8, 1e3) == pytest.approx(6 * (1e-5 + 1e-6))
    small, hosts = 100.0, 4 * 1024
    assert scale.all_reduce(CLUSTER, hosts, small) < scale.ring(CLUSTER.between, 1024, small, 2)  # a tree


def test_slower_networks_and_more_processes_cost_more():
    for way in scale.WAYS:
        speeds = [scale.efficiency(way, MODEL, CLUSTER, p) for p in (4, 64, 1024, 8192)]
        assert all(0 < later <= earlier * 1.01 for earlier, later in zip(speeds, speeds[1:], strict=False))
        slow = scale.Cluster(LINK, scale.Link(1e-2, 1e-6), 4, 1e12)
        assert scale.efficiency(way, MODEL, slow, 1024) < speeds[2]
        assert scale.scaling_stops(way, MODEL, slow) is not None
    assert scale.mesh(MODEL, CLUSTER, 6) == math.inf


def test_the_section_names_its_assumptions():
    text = scale.section(CLUSTER, scale.MEASURED)
    assert "not measured" in text and "half is lost at" in text and text.count("| 13 G parameters") == 3
    assert replace_section("old\n", "scale", text).count("<!-- scale") == 2
