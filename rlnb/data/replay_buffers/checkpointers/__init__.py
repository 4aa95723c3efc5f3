"""Checkpointers, which save storages in folders and load them.

The folder that ``buffer.dumps(path)`` writes::

    path/
        checkpoint.json       manifest: the format, and size and checksum (XXH3) of every file below
        storage/              what the checkpointer of the storage wrote; an ensemble has a folder for each member
            storage.json      length, cursor, capacity; keys, shapes and dtypes; non-tensor data; who wrote it
            meta.json         written by tensordict, so that TensorDict.load_memmap(path / "storage") works
            *.memmap          the filled rows of each tensor; nested TensorDicts are folders with a meta.json
        state/                sampler.json, writer.json, buffer.json; their tensors are *.memmap files beside them
        .lock                 locked while something saves or loads

Nothing in it is unpickled or imported: reading ignores ``meta.json``, because ``load_memmap`` unpickles what it names.
No size in a document is believed before the file of its tensor has that size.

``saving`` replaces a checkpoint as a whole:

1. Take ``.lock``; finish the exchange of an earlier process, if it was killed in step 4.
2. Write everything into ``.rlnb-new``, with the manifest last, and ``fsync`` every file and folder.
3. Rename ``.rlnb-new`` to ``.rlnb-ready`` and ``fsync`` the folder. From here on the new checkpoint counts.
4. Rename each old part to ``.rlnb-ready/old-*`` and the new one to its place; then delete ``.rlnb-ready``.

Whoever is killed, interrupted or out of disk space before step 3 leaves the old checkpoint, and afterwards the new one:
``loading`` repeats step 4 for all parts still in ``.rlnb-ready``. Then it compares all files with the manifest.
``storage``, ``state`` and both temporary folders hold an empty file ``.rlnb``: folders without it are never deleted,
and saving over them is refused.
"""

from rlnb.data.replay_buffers.checkpointers.base import (
    ListStorageCheckpointer,
    StorageCheckpointerBase,
    StorageEnsembleCheckpointer,
)
from rlnb.data.replay_buffers.checkpointers.column import TensorStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.flat import (
    FlatStorageCheckpointer,
    H5StorageCheckpointer,
    NestedStorageCheckpointer,
)

__all__ = [
    "FlatStorageCheckpointer",
    "H5StorageCheckpointer",
    "ListStorageCheckpointer",
    "NestedStorageCheckpointer",
    "StorageCheckpointerBase",
    "StorageEnsembleCheckpointer",
    "TensorStorageCheckpointer",
]
