"""Writes tests/files/data with PyTorch; run by hand (python tests/files/make_data.py) where PyTorch and safetensors are installed.

Each file is checked by loading it with PyTorch before it is kept.
"""

import collections
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import safetensors.torch
import torch

DATA = Path(__file__).parent / "data"
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


def tensors():
    """0 to 5 in every dtype."""
    return {name: torch.arange(6).to(getattr(torch, name)).view(2, 3) for name in DTYPES}


def checkpoint():
    """Everything a checkpoint tends to hold."""
    base = torch.arange(12, dtype=torch.float32).view(3, 4)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel(), dtype=torch.float32).view(p.shape) + 10 * i)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel(), dtype=torch.float32).view(p.shape) + 10 * i)
    named = torch.ones(2)
    named.note = "attribute"
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": torch.nn.Parameter(torch.tensor([1.0, 2.0])),
        "base": base,
        "row": base[1],
        "transposed": base.t(),
        "every_other": base[:, ::2],
        "expanded": torch.tensor([7.0]).expand(3),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(5),
        "conj": torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64).conj(),
        "neg": torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64).conj().imag,
        "named": named,
        "rng": torch.tensor([1, 2, 3], dtype=torch.uint8),
        "plain": [None, True, -1, 300, -70000, 1 << 40, 1 << 80, 2.5, "tëxt", (1, (2,)), {"k": [1]}],
        "bytes": b"\x00\xff",
        "bytearray": bytearray(b"ab"),
        "set": {1, 2},
        "complex": 1 - 2j,
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
        "counter": collections.Counter("aab"),
        7: "number as key",
    }


def big_endian(data):
    """The archive with every storage (of float32) and the byte order turned round."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            body = old.read(name)
            if name.endswith("/byteorder"):
                body = b"big"
            elif "/data/" in name:
                body = b"".join(body[i : i + 4][::-1] for i in range(0, len(body), 4))
            new.writestr(name, body)
    return out.getvalue()


def tar():
    """The format before 0.1.10: two tensors on one storage of floats."""
    storages = pickle.dumps(1, 2) + pickle.dumps((10, "cpu", torch.FloatStorage), 2)
    storages += struct.pack("<q", 6) + struct.pack("<6f", *range(6)) + pickle.dumps([], 2)
    tensors = pickle.dumps(2, 2)
    for key, size, stride, offset in ((20, (2, 3), (3, 1), 0), (21, (3,), (1,), 3)):
        tensors += pickle.dumps((key, 10, torch.FloatTensor), 2) + struct.pack("<i", len(size)) + bytes(4)
        tensors += struct.pack(f"<{len(size)}q", *size) + struct.pack(f"<{len(size)}q", *stride) + struct.pack("<q", offset)
    whole = io.BytesIO()
    # {"whole": persistent 20, "row": persistent 21}, by hand: pickle has no text for tensors.
    main = b"\x80\x02}(X\x05\x00\x00\x00wholeX\x02\x00\x00\x0020QX\x03\x00\x00\x00rowX\x02\x00\x00\x0021Qu."
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, body in (("storages", storages), ("tensors", tensors), ("pickle", main)):
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    # tar pads with zeros to 10 KiB; two empty blocks are enough.
    body = whole.getvalue().rstrip(b"\0")
    return body + bytes(-len(body) % 512 + 1024)


def saved(value, **options):
    f = io.BytesIO()
    torch.save(value, f, **options)
    return f.getvalue()


def main():
    DATA.mkdir(exist_ok=True)
    old = {"_use_new_zipfile_serialization": False}
    files = {
        "dtypes_zip.pt": saved(tensors()),
        # PyTorch itself cannot load unsigned types of more than a byte from this format.
        "dtypes_legacy.pt": saved({k: t for k, t in tensors().items() if not k.startswith("uint") or k == "uint8"}, **old),
        "checkpoint_zip.pth": saved(checkpoint()),
        "checkpoint_legacy.pth": saved(checkpoint(), **old),
        "big_endian.pt": big_endian(saved({"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1.5])})),
        "tar.pt": tar(),
        "dtypes.safetensors": safetensors.torch.save(tensors_for_safetensors()),
    }
    for name, data in files.items():
        (DATA / name).write_bytes(data)
        if not name.endswith(".safetensors"):
            torch.load(DATA / name, weights_only=name != "tar.pt")
        print(f"{name}: {len(data)} bytes", flush=True)


def tensors_for_safetensors():
    return {name: t for name, t in tensors().items() if name != "complex128"}


if __name__ == "__main__":
    main()
