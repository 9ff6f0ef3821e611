"""Sentences about errors of the operating system: what was refused, and whether the request or the machine is at fault.

Errors in the contents of files are described elsewhere.
"""

from __future__ import annotations

import errno

REMEDIES = {  # errno -> what was expected, for errors by which a request cannot be met
    errno.EACCES: "expected a file or folder that this user may use; see ls -ld, or name another",
    errno.EPERM: "expected a file or folder that this user may use; see ls -ld, or name another",
    errno.EEXIST: "expected a folder, or a name that is free",
    errno.EROFS: "expected a folder that can be written; name another",
    errno.ENOENT: "expected a file or folder that exists",
    errno.ENOTDIR: "expected a folder",
    errno.EISDIR: "expected a file",
}
FULL = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


def sentence(error: Exception) -> str:
    """Return the error without its number: the file, what is wrong with the file, and the remedy."""
    if not isinstance(error, OSError) or error.errno is None or error.strerror is None:
        return str(error)
    if error.filename is None:
        return f"standard output or a file cannot be written ({error.strerror})" if error.errno in FULL else str(error)
    where = f"{error.filename}: {error.strerror.lower()}"
    return f"{where}; {REMEDIES[error.errno]}" if error.errno in REMEDIES else where


def is_of_request(error: OSError) -> bool:
    """Return whether the user could have named another file or folder, with which the command would work."""
    return error.errno in REMEDIES and error.filename is not None
