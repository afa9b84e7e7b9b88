"""Errors that the user can mend: commands report them in one message, without a traceback."""

import errno
import zlib
from tokenize import TokenError
from zipfile import BadZipFile

REFUSALS = {
    errno.ENOSPC: "make room and start the same command again",
    errno.EDQUOT: "make room and start the same command again",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "change its permissions, or choose another folder",
    errno.EPERM: "change its permissions, or choose another folder",
}
"""Advice for each error number by which a file system refuses to write."""

MISTAKES = (errno.ENAMETOOLONG, errno.ELOOP)
"""Error numbers of paths that no file can have."""

# The exceptions that reading a damaged archive can raise: flipped bits can claim encryption or an unknown compression,
# and NumPy parses the header of an array as an expression.
DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError, BadZipFile, zlib.error),
    *(TokenError, SyntaxError, OverflowError),
)


class InputError(ValueError):
    """An error that the user can mend: in a setting, a path, a file, or a damaged run.

    The message says where it is (`file:line`, or the key of the setting), what was expected and found, and how to mend
    it.
    """
