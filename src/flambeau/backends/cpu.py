"""What the processor can do."""

__all__ = ["get_cpu_capability"]
__dir__ = __all__.copy


def get_cpu_capability() -> str:
    """The widest vector instructions of this processor that PyTorch has a name for.

    Example:
        >>> fb.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
        True
    """
    from flambeau import _C

    features = str(_C.config()["cpu_features"]).lower()
    return "AVX512" if "avx512" in features else "AVX2" if "avx2" in features else "DEFAULT"
