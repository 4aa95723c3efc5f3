"""MismatchError: data, or an argument, that does not fit."""


class MismatchError(ValueError, RuntimeError):
    """Data of another form than what is stored, or an argument that does not fit the others.

    It is a :class:`ValueError`, and a :class:`RuntimeError` as well, which is what TorchRL raises in these cases: code
    written for it catches the error.

    Example:
        >>> issubclass(MismatchError, ValueError) and issubclass(MismatchError, RuntimeError)
        True
    """
