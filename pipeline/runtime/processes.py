"""Whether other processes run."""

import os
import sys

SYNCHRONIZE = 0x00100000  # the right to wait for a process, of <winnt.h>


def is_running(process: int) -> bool:
    """Returns whether there is a process of that number on this machine."""
    if sys.platform == "win32":  # where os.kill would end it
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(SYNCHRONIZE, False, process)
        return bool(handle and ctypes.windll.kernel32.CloseHandle(handle))
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True
