"""Processes as a grid, with a process group for every row along every dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.errors import ArgumentError, StateError

__all__ = ["DeviceMesh", "init_device_mesh"]
__dir__ = __all__.copy


class DeviceMesh:
    """A grid of ranks. All processes make the same meshes in the same order.

    Args:
        device_type: of the tensors that will be communicated: "cpu".
        mesh: ranks of the default group, as nested lists or a tensor of integers.
        mesh_dim_names: names of the dimensions, by which mesh["name"] gives the mesh along them.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = fb.distributed.DeviceMesh("cpu", [[0]], mesh_dim_names=("data", "model"))
        >>> mesh["data"].get_group().size(), mesh.get_coordinate()
        (1, [0, 0])
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None, _groups: list[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:  # fmt: skip
        self.device_type = fb.device(device_type).type
        self.mesh: Tensor = mesh.detach().to(fb.int64) if isinstance(mesh, Tensor) else fb.tensor(mesh, dtype=fb.int64, device="cpu")
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._root = _root
        self._flattened: dict[str, DeviceMesh] = {}
        self._ranks = tuple(self.mesh.flatten().tolist())
        if self.mesh_dim_names is not None:
            if len(self.mesh_dim_names) != self.mesh.ndim:
                raise ArgumentError(f"DeviceMesh: {self.mesh.ndim} dimensions need as many names, got {self.mesh_dim_names}")
            if len(set(self.mesh_dim_names)) != len(self.mesh_dim_names):
                raise ArgumentError(f"DeviceMesh: Each mesh_dim_name must be unique, got {self.mesh_dim_names}")
        if len(set(self._ranks)) != len(self._ranks):
            raise ArgumentError(f"DeviceMesh: every rank may be in the mesh once, got {self.mesh.tolist()}")
        if not dist.is_initialized():
            dist.init_process_group()
        if self._ranks and not 0 <= min(self._ranks) <= max(self._ranks) < dist.get_world_size():
            raise ArgumentError(f"DeviceMesh: ranks must be in 0..{dist.get_world_size() - 1}, got {self.mesh.tolist()}")
        place = (self.mesh == dist.get_rank()).nonzero().tolist()
        self._coordinate: list[int] | None = place[0] if place else None
        self._groups = [self._groups_along(d) for d in range(self.mesh.ndim)] if _groups is None else _groups

    def _groups_along(self, dim: int) -> Any:
        """The group of this process's row along a dimension; creates all rows' groups, as every process must."""
        mine: Any = dist.GroupMember.NON_GROUP_MEMBER
        everybody = list(range(dist.get_world_size()))
        for ranks in self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist():
            group = dist.group.WORLD if ranks == everybody else dist.new_group(ranks)
            if dist.get_rank() in ranks:
                mine = group
        return mine

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Number of processes, along a dimension if given.

        Args:
            mesh_dim: the dimension.
        """
        return len(self._ranks) if mesh_dim is None else int(self.mesh.shape[mesh_dim])

    def _dim(self, op: str, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise ArgumentError(f"{op}: Found the DeviceMesh have {self.ndim} dimensions; mesh_dim is required when it has not 1")
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise ArgumentError(f"{op}: no dimension is named {mesh_dim!r}, the names are {self.mesh_dim_names}")
            return self.mesh_dim_names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise ArgumentError(f"{op}: mesh_dim {mesh_dim} is out of range for {self.ndim} dimensions")
        return mesh_dim % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of the processes along a dimension that this process is in.

        Args:
            mesh_dim: the dimension, by number or name; not needed when there is one.
        """
        return self._groups[self._dim("get_group", mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """The groups of this process along all dimensions."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Place of this process along a dimension.

        Args:
            mesh_dim: the dimension, by number or name; not needed when there is one.
        """
        dim = self._dim("get_local_rank", mesh_dim)
        if self._coordinate is None:
            raise StateError(f"get_local_rank: rank {dist.get_rank()} is not in {self}")
        return self._coordinate[dim]

    def get_coordinate(self) -> list[int] | None:
        """Coordinates of this process in the mesh; None if it is not in it."""
        return None if self._coordinate is None else list(self._coordinate)

    def get_rank(self) -> int:
        """Rank of this process in the default group."""
        return dist.get_rank()

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        root = self._root or self
        if len(names) == 1 and names[0] in root._flattened:
            return root._flattened[names[0]]
        if self.mesh_dim_names is None:
            raise ArgumentError("DeviceMesh: Cannot slice a DeviceMesh without mesh_dim_names; give names when making it")
        if any(name not in self.mesh_dim_names for name in names) or not names:
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {self.mesh_dim_names}.")
        if names == self.mesh_dim_names:
            return self
        dims = [self.mesh_dim_names.index(name) for name in names]
        if self._coordinate is None:
            raise StateError(f"DeviceMesh: rank {dist.get_rank()} is not in {self}, so it is in no part of it")
        index = tuple(slice(None) if d in dims else self._coordinate[d] for d in range(self.ndim))
        kept = [d for d in range(self.ndim) if d in dims]
        part = self.mesh[index].permute([kept.index(d) for d in dims])
        return DeviceMesh(self.device_type, part, mesh_dim_names=names, _groups=[self._groups[d] for d in dims], _root=root)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The processes of this mesh in one dimension, which the parent mesh knows by its name from now on."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._root or self
        if name not in root._flattened:
            mine: Any = None
            for ranks in self._alike():
                flat = DeviceMesh(self.device_type, ranks, mesh_dim_names=(name,), _root=root)
                if dist.get_rank() in ranks:
                    mine = flat
            root._flattened[name] = mine
        return root._flattened[name]

    def _alike(self) -> list[list[int]]:
        """Ranks of all parts of the parent mesh with the same dimensions."""
        root = self._root
        if root is None or root.mesh_dim_names is None or self.mesh_dim_names is None or self.ndim == root.ndim:
            return [list(self._ranks)]
        dims = [root.mesh_dim_names.index(name) for name in self.mesh_dim_names]
        others = [d for d in range(root.ndim) if d not in dims]
        return root.mesh.permute([*others, *dims]).reshape(-1, self.size()).tolist()

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:  # fmt: skip
        """A mesh of groups that are there already.

        Args:
            group: a group, or one per dimension.
            device_type: "cpu".
            mesh: the ranks, if there are several groups.
            mesh_dim_names: names of the dimensions.
        """
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        if len(groups) > 1 and mesh is None:
            raise ArgumentError("DeviceMesh.from_group: Must pass mesh if passing multiple ProcessGroups")
        ranks = dist.get_process_group_ranks(groups[0]) if mesh is None else mesh
        return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=groups)

    def __enter__(self) -> DeviceMesh:
        _open.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _open.pop()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        same = isinstance(other, DeviceMesh) and self._key() == other._key()
        return same

    def _key(self) -> Any:
        return self.device_type, self.shape, self._ranks, self.mesh_dim_names

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self.mesh_dim_names is None:
            return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()})"
        sizes = ", ".join(f"{name}={size}" for name, size in zip(self.mesh_dim_names, self.shape, strict=True))
        return f"DeviceMesh(({sizes}), {self.device_type!r}, {self.mesh.tolist()})"


_open: list[DeviceMesh] = []


def current_mesh(op: str) -> DeviceMesh:
    """The mesh of the innermost `with` block, else one dimension of all processes."""
    if _open:
        return _open[-1]
    if not dist.is_initialized():
        raise StateError(f"{op}: no device_mesh was given and there is no process group; call init_device_mesh() first")
    return DeviceMesh("cpu", list(range(dist.get_world_size())), _groups=[dist.group.WORLD])


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None, backend_override: Any = None
) -> DeviceMesh:
    """A mesh of all processes in the order of their ranks; makes the default group if there is none.

    Args:
        device_type: of the tensors that will be communicated: "cpu".
        mesh_shape: sizes of the dimensions, whose product is the number of processes.
        mesh_dim_names: names of the dimensions.
        backend_override: not supported; all groups have the default group's backend.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> fb.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
        DeviceMesh((data=1, model=1), 'cpu', [[0]])
        >>> fb.distributed.destroy_process_group()
    """
    if backend_override is not None:
        raise ArgumentError("init_device_mesh: backend_override is not supported; leave it at None")
    if not dist.is_initialized():
        dist.init_process_group()
    shape = tuple(mesh_shape)
    count, size = math.prod(shape), dist.get_world_size()
    if count > size or not shape or min(shape) < 1:
        raise ArgumentError(
            f"init_device_mesh: Mesh should not be bigger than default world size {size}, but found {count} ranks, of shape {shape}"
        )
    return DeviceMesh(device_type, fb.arange(count, device="cpu").reshape(shape), mesh_dim_names=mesh_dim_names)
