"""Files made to do harm or to break a reader. Each case is (name, bytes); loading must end in a FileError.

Run as a program, it loads them all under a limit of memory and time, which the tests use.
"""

import io
import pickle
import struct
import sys
import zipfile

LEGACY_HEAD = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)
PROTO = b"\x80\x02"


def archive(body, storages=(), **options):
    """A .pt file with this pickle and these storages."""
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", **options) as z:
        z.writestr("archive/data.pkl", body)
        for key, data in storages:
            z.writestr(f"archive/data/{key}", data)
        z.writestr("archive/version", "3\n")
    return f.getvalue()


def legacy(body, keys=(), tail=b""):
    """A file of the format before PyTorch 1.6."""
    return LEGACY_HEAD + body + pickle.dumps(list(keys), 2) + tail


def text(value):
    """Opcode for a text."""
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    """Opcode for an integer of any size."""
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def storage(kind=b"torch\nFloatStorage", key="0", location="cpu", count=4, last=b""):
    """Opcodes for a storage."""
    return b"(" + text("storage") + b"c" + kind + b"\n" + text(key) + text(location) + number(count) + last + b"tQ"


def numbers(values):
    """Opcodes for a tuple of integers."""
    return b"(" + b"".join(number(v) for v in values) + b"t"


def tensor(offset=0, size=(2, 2), stride=(2, 1), hooks=b"ccollections\nOrderedDict\n)R", extra=b"", **options):
    """A pickle of one tensor."""
    return (
        PROTO + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(**options) + number(offset) + numbers(size)
        + numbers(stride) + b"\x89" + hooks + extra + b"tR."
    )  # fmt: skip


def laughs(levels, width=10):
    """Lists of the same list, a few bytes per level."""
    body = PROTO + b"]q\x00"
    for _ in range(levels):
        body += b"](" + b"h\x00" * width + b"eq\x00"
    return body + b"."


def commands():
    """os.system("touch …") in every spelling a pickle has."""
    target = text("touch HARM")
    yield "GLOBAL and REDUCE", PROTO + b"cos\nsystem\n(" + target + b"tR."
    yield "posix", PROTO + b"cposix\nsystem\n" + target + b"\x85R."
    yield "STACK_GLOBAL", b"\x80\x04\x8c\x02os\x8c\x06system\x93" + target + b"\x85R."
    yield "INST", b"(" + target + b"ios\nsystem\n."
    yield "OBJ", b"(cos\nsystem\n" + target + b"o."
    yield "NEWOBJ", PROTO + b"csubprocess\nPopen\n" + target + b"\x85\x81."
    yield "NEWOBJ_EX", b"\x80\x04csubprocess\nPopen\n" + target + b"\x85}\x92."
    yield "EXT", PROTO + b"\x82\x01."
    yield "eval", PROTO + b"c__builtin__\neval\n" + text("1/0") + b"\x85R."
    yield "builtins getattr", PROTO + b"cbuiltins\ngetattr\n" + text("x") + text("y") + b"\x86R."
    yield "apply of a list", PROTO + b"]" + target + b"\x85R."
    yield "through OrderedDict", PROTO + b"ccollections\nOrderedDict\n" + text("x") + b"\x85R."
    yield "BUILD of attributes", PROTO + b"ccollections\nOrderedDict\n)R}" + text("__class__") + text("x") + b"sb."
    yield "BUILD hides a method", PROTO + b"ccollections\nOrderedDict\n)R}" + text("items") + text("x") + b"sb."
    yield "BUILD of a list", PROTO + b"]}" + text("x") + b"K\x01sb."
    yield "BUILD of a name", PROTO + b"ccollections\nOrderedDict\n}" + text("x") + b"K\x01sb."
    yield "NEWOBJ of a function", PROTO + b"c_codecs\nencode\n)\x81."
    yield "factory", PROTO + b"ccollections\ndefaultdict\ncos\ngetpid\n\x85R."
    yield "factory that is known", PROTO + b"ccollections\ndefaultdict\nctorch._utils\n_rebuild_tensor_v2\n\x85R."
    yield "a dotted name", b"\x80\x04\x8c\x0bcollections\x8c\x15OrderedDict.fromkeys.x\x93)R."
    yield "dunder", PROTO + b"ctorch\n__builtins__\n."
    yield "numpy of objects", PROTO + b"cnumpy\ndtype\n" + text("O8") + b"\x89\x88\x87R."
    yield "load from bytes", PROTO + b"ctorch.storage\n_load_from_bytes\n" + text("x") + b"\x85R."
    yield "hooks", tensor(hooks=b"}K\x01cos\nsystem\ns")
    yield "rebuild from type", PROTO + b"ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n)}tR."
    yield "another type", PROTO + b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\ncos\nsystem\n)}tR."
    yield "codec", PROTO + b"c_codecs\nencode\n" + text("x") + text("idna") + b"\x86R."
    yield "a class left over", PROTO + b"ccollections\nOrderedDict\n."
    yield "a class in a list", PROTO + b"](ccollections\nOrderedDict\ne."


def greedy():
    """Pickles that ask for much with few bytes."""
    huge = struct.pack("<I", 0xFFFFFFFF)
    yield "BINUNICODE", PROTO + b"X" + huge + b"x."
    yield "BINUNICODE8", b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fx."
    yield "BINBYTES", b"\x80\x03B" + huge + b"x."
    yield "BINBYTES8", b"\x80\x04\x8e" + b"\xff" * 8 + b"x."
    yield "BYTEARRAY8", b"\x80\x05\x96" + b"\xff" * 8 + b"x."
    yield "BINSTRING", b"T" + b"\xff" * 4 + b"x."
    yield "LONG4", PROTO + b"\x8b" + huge + b"x."
    yield "LONG4 that is there", PROTO + b"\x8b" + struct.pack("<I", 5000) + b"\x7f" * 5000 + b"."
    yield "LONG of digits", b"L" + b"9" * 60000 + b"L\n."
    yield "line without end", b"I" + b"1" * 70000
    yield "LONG_BINPUT", PROTO + b"]r\xff\xff\xff\xff(" + b"j\xff\xff\xff\xff" * 3 + b"e."
    yield "billion laughs", laughs(12)
    yield "laughs of tuples", PROTO + b")q\x000" + (b"(" + b"h\x00" * 9 + b"tq\x000") * 12 + b"h\x00."
    yield "deep by memo", PROTO + b"]q\x00" + b"]h\x00aq\x00" * 5000 + b"."
    yield "deep by stack", PROTO + b"]" * 5000 + b"a" * 4999 + b"."
    yield "deep tuples", PROTO + b")" + b"\x85" * 100_000 + b"."
    yield "open groups", PROTO + b"(" * 100_000
    yield "contains itself", PROTO + b"]q\x00h\x00a."
    yield "dict contains itself", PROTO + b"}q\x00K\x01h\x00s."
    many = b"](" + b"N" * 100_000 + b"eq\x00"
    yield "copied sets", PROTO + many + b"0" + b"c__builtin__\nlist\nq\x01](" + b"h\x01h\x00\x85R" * 20_000 + b"e."
    yield "copied bytes", PROTO + text("x" * 100_000) + b"q\x000c__builtin__\nbytearray\nq\x01](" + (
        b"h\x01h\x00" + text("utf-8") + b"\x86R"
    ) * 20_000 + b"e."  # fmt: skip
    yield "range as list", PROTO + b"c__builtin__\nlist\nc__builtin__\nrange\n" + number(1 << 40) + b"\x85R\x85R."
    for codec in ("idna", "punycode", "rot13", "unicode_escape", "no such codec", "UTF-7"):
        yield f"bytearray in {codec}", PROTO + b"c__builtin__\nbytearray\n" + text("x" * 50_000) + text(codec) + b"\x86R."
        yield f"bytes in {codec}", PROTO + b"c_codecs\nencode\n" + text("x" * 50_000) + text(codec) + b"\x86R."
    yield "bytearray of text", PROTO + b"c__builtin__\nbytearray\n" + text("x") + b"\x85R."
    yield "bytearray with errors", PROTO + b"c__builtin__\nbytearray\n(" + text("x") + text("ascii") + text("x") + b"tR."
    yield "bytearray of a number", PROTO + b"c__builtin__\nbytearray\n" + number(1 << 40) + b"\x85R."
    yield "bytes of a number", PROTO + b"c__builtin__\nbytes\n" + number(1 << 40) + b"\x85R."
    yield "numpy array", (
        PROTO + b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + numbers([1 << 40]) + text("b") + b"tR("
        + number(1) + numbers([1 << 40]) + b"cnumpy\ndtype\n" + text("u1") + b"\x89\x88\x87R\x89c_codecs\nencode\n"
        + text("x") + text("latin1") + b"\x86Rtb."
    )  # fmt: skip
    keys = [b"(" + b"".join(b"J" + struct.pack("<i", -1 - (n >> i & 1)) for i in range(13)) + b"t" for n in range(8192)]
    yield "keys of one hash", PROTO + b"}(" + b"".join(key + b"N" for key in keys) + b"u."
    yield "exponential key", PROTO + b")q\x000" + b"h\x00h\x00\x86q\x000" * 60 + b"}h\x00Ns."
    yield "exponential element", PROTO + b")q\x000" + b"h\x00h\x00\x86q\x000" * 60 + b"\x8f(h\x00\x90."
    yield "deep key", PROTO + b"})" + b"\x85" * 300_000 + b"Ns."
    yield "exponential text of an error", laughs(60)[:-1] + b"Q."
    yield "exponential size", laughs(60)[:-1] + b"0ctorch\nSize\nh\x00\x85R."
    yield "exponential name", laughs(60)[:-1] + b"0ctorch\ndevice\nh\x00\x85R."
    ones = b"](" + b"K\x01" * 100_000 + b"eq\x000"
    yield "list as a size, often", PROTO + ones + b"ctorch\nSize\nq\x01](" + b"h\x01h\x00\x85R" * 100_000 + b"e."
    state = b"}(" + b"".join(text(f"a{i}") + b"N" for i in range(1000)) + b"uq\x000"
    yield "attributes again and again", PROTO + state + b"ccollections\nOrderedDict\n)R" + b"h\x00b" * 100_000 + b"."
    yield "unhashable key", PROTO + b"}]Ns."
    yield "odd dict", PROTO + b"}(Nu."
    yield "no end", PROTO + b"]"
    yield "empty stack", PROTO + b"."
    yield "pops too much", PROTO + b"00."
    yield "closes nothing", PROTO + b"t."
    yield "takes over a mark", PROTO + b"]((a."
    yield "unknown memo", PROTO + b"h\x05."
    yield "unknown opcode", PROTO + b"\xfe."
    yield "protocol", b"\x80\x63N."
    yield "bad text", PROTO + b"X\x01\x00\x00\x00\xff."
    yield "bad float", b"Fx\n."
    yield "bad string", b"Sx\n."
    yield "persistent text", b"Px\n."
    yield "persistent number", PROTO + b"K\x01Q."
    yield "adds to a number", PROTO + b"K\x01K\x02a."
    yield "sets in a number", PROTO + b"K\x01K\x02K\x03s."


def tensors():
    """(name, pickle, bytes of storage 0): tensors that reach outside, and worse."""
    yield "beyond the storage", tensor(size=(3, 2)), bytes(16)
    yield "offset beyond", tensor(offset=1), bytes(16)
    yield "negative offset", tensor(offset=-1), bytes(16)
    yield "negative stride", tensor(offset=3, stride=(-2, -1)), bytes(16)
    yield "negative size", tensor(size=(-2, -2)), bytes(16)
    yield "product overflows", tensor(size=(1 << 32, 1 << 32), stride=(1, 1)), bytes(16)
    yield "reach overflows", tensor(size=(2,), stride=(1 << 61,)), bytes(16)
    yield "larger than int64", tensor(size=(1 << 70,), stride=(0,)), bytes(16)
    yield "sizes and strides differ", tensor(size=(2, 2), stride=(1,)), bytes(16)
    yield "too many dimensions", tensor(size=(1,) * 100, stride=(1,) * 100), bytes(16)
    yield "storage too short", tensor(count=4), bytes(15)
    yield "storage too long a claim", tensor(count=1 << 40), bytes(16)
    yield "negative count", tensor(count=-4), bytes(16)
    yield "missing storage", tensor(key="1"), bytes(16)
    yield "storage by path", tensor(key="../data/0"), bytes(16)
    yield "unknown storage class", tensor(kind=b"torch\nQInt8Storage"), bytes(16)
    yield "not a storage class", tensor(kind=b"collections\nOrderedDict"), bytes(16)
    yield "device", tensor(location="nowhere"), bytes(16)
    yield "size of texts", tensor(size=()).replace(b"((t", b"((" + text("x") + b"t"), bytes(16)
    lazily = b"ctorch._utils\n_rebuild_tensor_v2\n(h\x00K\x00" + number(1 << 20) + b"\x85K\x01\x85\x89}}"
    lazily += text("neg") + b"\x88stR"
    yield "negated again and again", PROTO + storage(count=1 << 20) + b"q\x000](" + lazily * 10_000 + b"e.", bytes(1 << 22)
    yield "negation of a self-overlapping one", tensor(
        size=(5000, 5000), stride=(1, 1), count=10000, extra=b"}" + text("neg") + b"\x88s"
    ), bytes(40000)  # fmt: skip
    yield "without arguments", PROTO + b"ctorch._utils\n_rebuild_tensor_v2\n)R.", bytes(16)
    yield "storage is a number", PROTO + b"ctorch._utils\n_rebuild_tensor\n(K\x01K\x00" + numbers([1]) + numbers([1]) + b"tR.", b""
    yield "parameter of a number", PROTO + b"ctorch._utils\n_rebuild_parameter\n(K\x01\x88}tR.", b""


def archives():
    """Archives whose trouble is the archive."""
    good = archive(tensor(), [("0", bytes(16))])
    yield "compressed", archive(tensor(), [("0", bytes(16))], compression=zipfile.ZIP_DEFLATED)
    bomb = archive(tensor(count=1 << 24), [("0", bytes(1 << 26))], compression=zipfile.ZIP_DEFLATED)
    yield "bomb", bomb
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        for name, body in (("archive/data.pkl", tensor()), ("archive/data/0", bytes(16)), ("archive/data/1", bytes(16))):
            z.writestr(name, body)
    yield "twice the same name", f.getvalue().replace(b"archive/data/1", b"archive/data/0")
    for name in ("/archive/x", "archive/../../x", "archive\\x", "c:/x", "../x", "a/\0b"):
        raw = good.replace(b"archive/version", name.encode().ljust(15, b"x")[:15])
        yield f"name {name!r}", raw
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("archive/other", b"x")
    yield "no pickle", f.getvalue()
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("a/data.pkl", tensor())
        z.writestr("b/data.pkl", tensor())
    yield "two pickles", f.getvalue()
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("archive/data.pkl", tensor())
        z.writestr("archive/constants.pkl", b"")
    yield "TorchScript", f.getvalue()
    end = good.rindex(b"PK\x05\x06")
    start, length = struct.unpack("<I", good[end + 16 : end + 20])[0], struct.unpack("<I", good[end + 12 : end + 16])[0]
    entry = good[start : start + length]
    for name, at, form, value in (
        ("offset of a record", 42, "<I", 0x7FFFFFFF), ("two records overlap", 42, "<I", 0), ("size of a record", 24, "<I", 1 << 30),
        ("both sizes", 20, "<II", (1 << 30, 1 << 30)), ("length of a name", 28, "<H", 60000), ("encrypted", 8, "<H", 1),
        ("checksum", 16, "<I", 12345),
    ):  # fmt: skip
        second = entry.index(b"PK\x01\x02", 4)
        changed = bytearray(good)
        values = value if isinstance(value, tuple) else (value,)
        struct.pack_into(form, changed, start + second + at, *values)
        yield name, bytes(changed)
    for name, at, value in (("many records", 10, 0xFFFE), ("directory elsewhere", 16, 5), ("long directory", 12, 0xFFFFFFF0)):
        changed = bytearray(good)
        struct.pack_into("<H" if at == 10 else "<I", changed, end + at, value)
        yield name, bytes(changed)
    wide = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1 << 60, 1 << 60, 1 << 60, 1 << 60)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1)
    yield "64 bits of everything", good[:end] + wide + locator + good[end:]
    yield "only a start", b"PK\x03\x04"
    yield "bytes behind", good + b"x"
    order = io.BytesIO()
    with zipfile.ZipFile(order, "w") as z:
        z.writestr("archive/data.pkl", tensor())
        z.writestr("archive/data/0", bytes(16))
        z.writestr("archive/byteorder", "middle")
    yield "byte order", order.getvalue()


def legacies():
    """Files of the old format whose trouble is not the pickle."""
    good = tensor(last=b"N")
    yield "length of the storage", legacy(good, ["0"], struct.pack("<q", 1 << 40) + bytes(16))
    yield "negative length", legacy(good, ["0"], struct.pack("<q", -4) + bytes(16))
    yield "another length", legacy(good, ["0"], struct.pack("<q", 3) + bytes(12))
    yield "storage twice", legacy(good, ["0", "0"], (struct.pack("<q", 4) + bytes(16)) * 2)
    yield "unused storage", legacy(good, ["1"], struct.pack("<q", 4) + bytes(16))
    yield "no storage", legacy(good)
    yield "keys are no list", LEGACY_HEAD + good + pickle.dumps(5, 2)
    view = b"(" + text("1") + number(3) + number(4) + b"t"
    yield "view beyond", legacy(tensor(last=view), ["0"], struct.pack("<q", 4) + bytes(16))
    view = b"(" + text("1") + number(-1) + number(4) + b"t"
    yield "negative view", legacy(tensor(last=view), ["0"], struct.pack("<q", 4) + bytes(16))
    yield "magic only", pickle.dumps(0x1950A86A20F9469CFC6C, 2)


def headers():
    """safetensors files."""
    import zlib

    def file(header, data=b""):
        return struct.pack("<Q", len(header)) + header + data

    def ours(tree, rest=""):
        import json

        body = f'{{"version":1,"tree":{tree}{rest}}}'
        crc = f"{zlib.crc32(body.encode(), 0):08x}"
        return file(json.dumps({"__metadata__": {"flambeau": body, "flambeau_crc": crc}}).encode())

    yield "length", struct.pack("<Q", 1 << 26) + b"{"
    yield "no JSON", file(b"{nope}")
    yield "deep JSON", file(b'{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}")
    yield "digits", file(b'{"a":' + b"9" * 100_000 + b"}")
    yield "bad text", file(b'{"\xff":1}')
    yield "huge shape", file(b'{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}')
    yield "text as number", file(b'{"a":{"dtype":"F32","shape":"ab","data_offsets":[0,0]}}')
    yield "metadata of numbers", file(b'{"__metadata__":{"flambeau":5,"flambeau_crc":5}}')
    yield "unknown kind", ours('{"system":"touch HARM"}')
    yield "private kind", ours('{"_class":"os.system"}')
    yield "class", ours('{"object":["os.system",{}]}')
    yield "enumeration", ours('{"enum":["os.system",1]}')
    yield "missing tensor", ours('{"tensor":"a"}')
    yield "tensor of a list", ours('{"tensor":[]}')
    yield "deep tree", ours('{"tuple":[' * 500 + "]}" * 500)
    yield "unhashable", ours('{"set":[[]]}')
    yield "range in a tuple", ours('{"tuple":{"range":[1,2]}}')
    yield "factory", ours('{"defaultdict":{},"factory":"eval"}')
    yield "attribute", ours('{"OrderedDict":{},"attributes":{"__class__":1}}')
    yield "dtype", ours('{"dtype":"Tensor"}')
    yield "constant", ours('{"constant":"__builtins__"}')
    yield "bytes", ours('{"bytes":"*"}')
    yield "return type", ours('{"return_type":["__class__",1]}')
    yield "numpy of objects", ours('{"numpy":["O","AAAAAAAAAAA="]}')
    yield "view of nothing", ours('{"tensor":"a"}', ',"views":{"a":["b","float32",[1],[1],0]}')
    yield "version", ours("null", ',"version":99')
    keys = ",".join(f'[{{"tuple":[{",".join(str(-1 - (n >> i & 1)) for i in range(13))}]}},0]' for n in range(8192))
    yield "keys of one hash", ours(f'{{"dict":[{keys}]}}')


def cases():
    """Every case: (name, bytes)."""
    for name, body in [*commands(), *greedy()]:
        yield f"zip: {name}", archive(body, [("0", bytes(16))])
        yield f"legacy: {name}", legacy(body)
    for name, body, data in tensors():
        yield f"zip: {name}", archive(body, [("0", data)])
    for group in (archives, legacies, headers):
        for name, data in group():
            yield f"{group.__name__}: {name}", data
    for name, data in {"text": b"hello", "pickle": pickle.dumps([1]), "zeros": bytes(1000), "tar": tar()}.items():
        yield name, data


def tar():
    """A tar archive with the right names and wrong contents."""
    import tarfile

    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w") as archive:
        for name in ("storages", "tensors", "pickle"):
            body = pickle.dumps(1 << 40, 2)
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return f.getvalue()


def main():
    """Loads every case with at most a gigabyte above what is in use, and ten seconds of the processor each."""
    import resource
    import signal

    from flambeau.serialization import FileError, load

    in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    every = list(cases())
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 30),) * 2)
    for name, data in every:
        signal.setitimer(signal.ITIMER_PROF, 10)
        try:
            load(io.BytesIO(data))
        except FileError:
            continue
        except BaseException as error:
            sys.exit(f"{name}: {type(error).__name__}: {error}")
        sys.exit(f"{name}: was loaded")
    print(len(every))


if __name__ == "__main__":
    main()
