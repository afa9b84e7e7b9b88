"""What a person can get wrong, told in one message and exit status 2."""

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
"""What a disk can refuse, and what to do then."""

# What reading a damaged archive raises: bits that are flipped can claim encryption or an unknown compression too, and
# what an array's header says is read as an expression.
DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError, BadZipFile, zlib.error),
    *(TokenError, SyntaxError, OverflowError),
)


class InputError(ValueError):
    """Something that the person at the keyboard can mend: a setting, a path, a file, a damaged run.

    The message says what was found, where (`file:line` or the key), what was expected, and how to mend it.
    """
