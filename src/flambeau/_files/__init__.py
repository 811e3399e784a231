"""Files: safetensors with a JSON structure, shards, and PyTorch's own formats, read and written without running code.

source, target      bytes in (read or mapped) and out (atomically)
layout              which tensors share memory, and what of it has to be written
tree                containers as JSON
safetensors_format  one file; shards: several files and an index
zip_format          the container of today's .pt files
opcodes, unpickle   PyTorch's pickles, opcode by opcode; known: the only names they may use
torch_read          .pt and .pth of three generations; torch_write: .pt that PyTorch loads with weights_only=True
models              whole modules in .pt files: which classes a file may name, and how
"""
