"""Training in several processes: not in this version. Scripts that ask first run in one process.

Example:
    >>> rank = fb.distributed.get_rank() if fb.distributed.is_initialized() else 0
    >>> rank
    0
"""

__all__ = [
    "is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
]  # fmt: skip


def is_available() -> bool:
    """False: there are no process groups in this version.

    Example:
        >>> fb.distributed.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """False: no process group has been made.

    Example:
        >>> fb.distributed.is_initialized()
        False
    """
    return False


def is_nccl_available() -> bool:
    """False: NCCL needs CUDA.

    Example:
        >>> fb.distributed.is_nccl_available()
        False
    """
    return False


def is_gloo_available() -> bool:
    """False: this build has no Gloo.

    Example:
        >>> fb.distributed.is_gloo_available()
        False
    """
    return False


def is_mpi_available() -> bool:
    """False: this version does not use MPI.

    Example:
        >>> fb.distributed.is_mpi_available()
        False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's elastic launcher started this process.

    Example:
        >>> fb.distributed.is_torchelastic_launched()
        False
    """
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ
