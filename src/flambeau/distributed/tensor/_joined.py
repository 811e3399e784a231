"""Meshes joined from several meshes: for a tensor sharded on one mesh and again on another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.errors import ArgumentError

__all__ = ["JoinedMesh"]


class JoinedMesh:
    """The dimensions of several meshes, one after another, with the parts of a mesh's interface that DTensors use.

    A placement on an earlier dimension is applied first. So a weight sharded by tensor parallelism and again by
    fully_shard is placed on the mesh of the former joined with that of the latter, whatever their order in the machine.
    """

    def __init__(self, meshes: Sequence[Any]) -> None:
        self.parts: list[Any] = [part for mesh in meshes for part in (mesh.parts if isinstance(mesh, JoinedMesh) else [mesh])]
        self._dims = [(mesh, d) for mesh in self.parts for d in range(mesh.ndim)]
        self.device_type = self.parts[0].device_type
        names = [name for mesh in self.parts for name in (mesh.mesh_dim_names or ())]
        self.mesh_dim_names = tuple(names) if len(names) == len(self._dims) else None

    ndim = property(lambda self: len(self._dims))
    shape = property(lambda self: tuple(mesh.size(d) for mesh, d in self._dims))

    def size(self, mesh_dim: int | None = None) -> int:
        """Number of processes, along a dimension if given."""
        if mesh_dim is None:
            total = 1
            for size in self.shape:
                total *= size
            return total
        return self.shape[mesh_dim]

    def _place(self, mesh_dim: int | str) -> tuple[Any, int]:
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise ArgumentError(f"DeviceMesh: no dimension is named {mesh_dim!r}, the names are {self.mesh_dim_names}")
            mesh_dim = self.mesh_dim_names.index(mesh_dim)
        return self._dims[mesh_dim]

    def get_group(self, mesh_dim: int | str) -> Any:
        """The group of processes along a dimension that this process is in."""
        mesh, d = self._place(mesh_dim)
        return mesh.get_group(d)

    def get_local_rank(self, mesh_dim: int | str) -> int:
        """Index of this process along a dimension."""
        mesh, d = self._place(mesh_dim)
        return mesh.get_local_rank(d)

    def get_coordinate(self) -> list[int] | None:
        """Coordinates of this process."""
        place: list[int] = []
        for mesh in self.parts:
            part = mesh.get_coordinate()
            if part is None:
                return None
            place += list(part)
        return place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinedMesh) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    def __repr__(self) -> str:
        return " × ".join(map(repr, self.parts))
