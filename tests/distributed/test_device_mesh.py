"""Grids of ranks: groups along dimensions, parts, errors."""

import pytest
from rank_pool import on_ranks

import flambeau as fb
from flambeau import distributed as dist
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh


@on_ranks(4)
def test_groups_of_a_grid():
    mesh, rank = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model")), dist.get_rank()
    assert mesh.shape == (2, 2) and mesh.size() == 4 and mesh.size(0) == 2 and mesh.ndim == 2 and mesh.get_rank() == rank
    assert mesh.get_coordinate() == [rank // 2, rank % 2]
    assert dist.get_process_group_ranks(mesh.get_group("data")) == [rank % 2, rank % 2 + 2]
    assert dist.get_process_group_ranks(mesh.get_group(1)) == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert mesh["model"].get_group() is mesh.get_all_groups()[1] and mesh["model"].get_local_rank() == rank % 2
    assert mesh["data", "model"] is mesh and mesh["model", "data"].mesh.tolist() == [[0, 2], [1, 3]]
    x = fb.tensor([float(rank)])
    dist.all_reduce(x, group=mesh["data"].get_group())
    assert x.item() == 2 * (rank % 2) + 2
    again = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    assert again == mesh and hash(again) == hash(mesh) and again["data"] != mesh["model"]
    flat = mesh._flatten("all")
    assert flat.shape == (4,) and mesh["all"] is flat
    assert repr(mesh) == "DeviceMesh((data=2, model=2), 'cpu', [[0, 1], [2, 3]])"
    cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    pair = cube["a", "b"]._flatten("ab")
    assert pair.mesh.tolist() == [rank % 2, rank % 2 + 2] and cube["ab"].get_group().size() == 2


@on_ranks(2)
def test_one_dimension_and_errors():
    mesh = init_device_mesh("cpu", (2,))
    assert mesh.get_group() is dist.group.WORLD and mesh.get_local_rank() == dist.get_rank()
    assert DeviceMesh.from_group(dist.group.WORLD, "cpu") == mesh
    for bad, message in (
        (lambda: mesh["data"], "without mesh_dim_names"),
        (lambda: mesh.get_group(3), "out of range"),
        (lambda: init_device_mesh("cpu", (2, 1)).get_group(), "mesh_dim is required"),
        (lambda: init_device_mesh("cpu", (3,)), "bigger than"),
        (lambda: init_device_mesh("cpu", (2,), mesh_dim_names=("a", "b")), "as many names"),
        (lambda: init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "a")), "unique"),
        (lambda: DeviceMesh("cpu", [0, 0]), "once"),
        (lambda: DeviceMesh("cpu", [0, 5]), "must be in 0..1"),
        (lambda: DeviceMesh.from_group([dist.group.WORLD] * 2, "cpu"), "Must pass mesh"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
    with pytest.raises(KeyError, match="Valid mesh_dim_names"):
        init_device_mesh("cpu", (2,), mesh_dim_names=("a",))["b"]
    alone = DeviceMesh("cpu", [1])
    assert alone.get_coordinate() == ([0] if dist.get_rank() == 1 else None)
