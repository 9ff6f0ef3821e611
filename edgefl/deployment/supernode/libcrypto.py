"""ECDSA keys of the system's libcrypto (OpenSSL 1.1 or 3) by ctypes. The files of keys are in node_key.py.

Python's ssl has loaded that library already, so a key takes no further memory. The package `cryptography` would bring 8
to 12 MB into a process that should fit a small board.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from edgefl.errors import RequestError

NAMES = ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.3.dylib")
P384 = 715  # NID_secp384r1
EC_KEY_TYPE = 408  # EVP_PKEY_EC
PARAMGEN, KEYGEN = 1 << 1, 1 << 2  # EVP_PKEY_OP_*
SET_CURVE = 0x1001  # EVP_PKEY_CTRL_EC_PARAMGEN_CURVE_NID
POINTER = ctypes.c_void_p
SIGNATURES = {  # by name: type of the result, types of the arguments
    "d2i_AutoPrivateKey": (POINTER, (POINTER, POINTER, ctypes.c_long)),
    "i2d_PrivateKey": (ctypes.c_int, (POINTER, POINTER)),
    "i2d_PUBKEY": (ctypes.c_int, (POINTER, POINTER)),
    "EVP_PKEY_free": (None, (POINTER,)),
    "EVP_PKEY_CTX_new_id": (POINTER, (ctypes.c_int, POINTER)),
    "EVP_PKEY_CTX_ctrl": (ctypes.c_int, (POINTER, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int, POINTER)),
    "EVP_PKEY_CTX_free": (None, (POINTER,)),
    "EVP_PKEY_keygen_init": (ctypes.c_int, (POINTER,)),
    "EVP_PKEY_keygen": (ctypes.c_int, (POINTER, POINTER)),
    "EVP_MD_CTX_new": (POINTER, ()),
    "EVP_MD_CTX_free": (None, (POINTER,)),
    "EVP_sha256": (POINTER, ()),
    "EVP_DigestSignInit": (ctypes.c_int, (POINTER, POINTER, POINTER, POINTER, POINTER)),
    "EVP_DigestSign": (ctypes.c_int, (POINTER, POINTER, POINTER, ctypes.c_char_p, ctypes.c_size_t)),
    "ERR_clear_error": (None, ()),
}


class LibcryptoKey:
    """A private key. Raises RequestError if `der` is not a private key that libcrypto accepts."""

    def __init__(self, der: bytes) -> None:
        """Read the key from `der`: PKCS #8 or SEC 1, not encrypted."""
        self._key = POINTER()
        lib, start = _lib(), ctypes.c_char_p(der)
        found = lib.d2i_AutoPrivateKey(None, ctypes.byref(start), len(der))
        if not found:
            lib.ERR_clear_error()
            raise RequestError(
                "not an EC private key that libcrypto reads; expected one on curve P-256, P-384 or P-521"
            )
        self._key = POINTER(found)

    def __del__(self) -> None:
        if self._key:
            _lib().EVP_PKEY_free(self._key)

    def public(self) -> bytes:
        """Return the public key as SubjectPublicKeyInfo, DER."""
        return _der("i2d_PUBKEY", self._key)

    def sign(self, data: bytes) -> bytes:
        """Sign by ECDSA with SHA-256, and return the signature in DER. Raises RequestError if the key cannot sign."""
        lib = _lib()
        context = POINTER(lib.EVP_MD_CTX_new())
        try:
            if lib.EVP_DigestSignInit(context, None, lib.EVP_sha256(), None, self._key) != 1:
                raise RequestError("libcrypto cannot sign with this key; expected an EC private key")
            size = ctypes.c_size_t(0)
            lib.EVP_DigestSign(context, None, ctypes.byref(size), data, len(data))
            out = ctypes.create_string_buffer(size.value)
            if lib.EVP_DigestSign(context, out, ctypes.byref(size), data, len(data)) != 1:
                raise RequestError("libcrypto has not signed with this key; expected an EC private key")
            return out.raw[: size.value]
        finally:
            lib.EVP_MD_CTX_free(context)


def generate() -> bytes:
    """Make a private key on P-384, and return it in DER. Raises RequestError if libcrypto cannot make it."""
    lib = _lib()
    context, key = POINTER(lib.EVP_PKEY_CTX_new_id(EC_KEY_TYPE, None)), POINTER()
    try:
        steps = (
            lambda: lib.EVP_PKEY_keygen_init(context),
            lambda: lib.EVP_PKEY_CTX_ctrl(context, EC_KEY_TYPE, PARAMGEN | KEYGEN, SET_CURVE, P384, None),
            lambda: lib.EVP_PKEY_keygen(context, ctypes.byref(key)),
        )
        if not all(step() == 1 for step in steps):
            raise RequestError(
                "libcrypto cannot make a key on curve P-384; expected a libcrypto that can, or --node-key FILE"
            )
        return _der("i2d_PrivateKey", key)
    finally:
        lib.EVP_PKEY_free(key)
        lib.EVP_PKEY_CTX_free(context)


def is_there() -> bool:
    """Return whether this machine has a libcrypto that can be loaded."""
    try:
        _lib()
    except (OSError, AttributeError):
        return False
    return True


def _der(function: str, key: ctypes.c_void_p) -> bytes:
    """Return the bytes that an i2d function writes for a key."""
    encode = getattr(_lib(), function)
    out = ctypes.create_string_buffer(encode(key, None))
    at = POINTER(ctypes.addressof(out))  # the call moves this pointer, and the buffer stays
    encode(key, ctypes.byref(at))
    return out.raw


@cache
def _lib() -> ctypes.CDLL:
    """Return the library with its functions declared. Raises OSError if it is missing, AttributeError if too old."""
    lib = _loaded()
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def _loaded() -> ctypes.CDLL:
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    from ctypes.util import find_library  # imported late, because it loads the modules that run programs

    found = None if sys.platform == "darwin" else find_library("crypto")  # Apple's library ends a process that loads it
    if found is None:
        raise OSError("no libcrypto")
    return ctypes.CDLL(found)
