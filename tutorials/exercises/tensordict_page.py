"""What TorchRL's TensorDict page describes and today's tensordict does otherwise: the page's name, today's, and why."""

from __future__ import annotations

from html import escape

from IPython.display import HTML

#: Rows: as the page writes it, as it is written today, and why.
PAGE_ROWS: list[tuple[str, str, str]] = [
    ("torch.stack(tds, 1) is lazy", "lazy_stack(tds, 1)", "torch.stack copies, as it does for tensors"),
    ("stack.clone() is one block", "stack.contiguous()", "the clone of a lazy stack is a lazy stack of clones"),
    ("td.to(SavedTensorDict)", "SavedTensorDict(td)", "to takes devices and dtypes; the class is rlnb's"),
    ("saved shows file=...", "saved.filename", "texts name no temporary path"),
    ("d._get_meta(key)", "saved.get_meta(key)", "a tensor in memory knows its shape; a file is asked"),
    ("d._items_meta()", "saved.items_meta()", "the same for all tensors"),
    ("MemmapTensor", "MemoryMappedTensor", "renamed; it is a torch.Tensor now"),
    ("td.memmap_().get(key).filename", "td.memmap(prefix).get(key).filename", "files without prefix have no name"),
    ("memmap of a tensor that requires grad fails", "the file holds its values", "the graph stays with the original"),
    (
        "td.view(-1).set(key, value)",
        "with td.view(-1) as v: v.set(key, value)",
        "a view knows its origin in a with block",
    ),
    ("td.rename_key(a, b)", "td.rename_key_(a, b)", "what changes its object ends in _"),
    ("td.rename(a, b)", "td.rename_key_(a, b)", "rename names dimensions now"),
    ("td.update(other) writes in place", "td.update(other, inplace=True)", "the default replaces tensors"),
    ("update(inplace=True) refuses another shape", "update_", "a shape that can be broadcast is accepted"),
    ("update_ of an unknown key fails", "compare the keys first", "update_ ignores keys that it does not find"),
    ("td.to(dtype) fails", "td.to(dtype)", "it casts every tensor"),
    ("td + 1 fails", "td + 1", "arithmetic applies to every tensor"),
    ("td[:, :, 2] fails, batch [3, 4]", "td[:, 2]", "a warning; refused again from tensordict 0.17"),
    ("permute, transpose, reshape, ... planned", "the same names", "all exist"),
    ('"next_observation"', '("next", "observation") and step_mdp', "one level for all that a step gives"),
    ("_TensorDict", "TensorDictBase", "public now"),
    ("torch.testing.assert_allclose", "torch.testing.assert_close", "renamed by torch"),
]


def page_table() -> HTML:
    """Return the rows as a table."""
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("on the page", "today", "why"))
    cells = [
        f"<td style='text-align:left'><code>{escape(page)}</code></td><td style='text-align:left'><code>{escape(today)}"
        f"</code></td><td style='text-align:left'>{escape(why)}</td>"
        for page, today, why in PAGE_ROWS
    ]
    return HTML(f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>")
