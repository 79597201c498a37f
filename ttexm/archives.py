"""Files of the datasets: from a folder, or from the original archives; verified by sha256.

The folder is the one that the environment variable ``TTEXM_DATA`` names, laid out as `SHA256` is
(``car/car.data`` ..); without it the original archives are downloaded once, by pooch.
"""

import hashlib
import io
import os
import zipfile
import zlib

ARCHIVES = {
    "car": "https://archive.ics.uci.edu/static/public/19/car+evaluation.zip",
    "hiv1_protease": "https://archive.ics.uci.edu/static/public/330/hiv+1+protease+cleavage.zip",
    "ml-100k": "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
}
SHA256 = {
    "car": {
        "car.data": "b703a9ac69f11e64ce8c223c0a40de4d2e9d769f7fb20be5f8f2e8a619893d83",
    },
    "hiv1_protease": {
        "1625Data.txt": "c7b962810e927bf4874d596bfccbdaa89c9fb199cb9a00f844cb75a8a442b8ea",
        "746Data.txt": "46607de25eb78bfd3e0056e14a2829faaf5ed29f902cbc18107db49525027740",
        "impensData.txt": "f2b5cc3e15c9dbd3fd22306e6a01b431296b5d1e6e1ee3f98d8d434ae7025e5f",
        "schillingData.txt": "7e2d2658383c90142fad31a7b78fa5a6e1d8a096e3b8e68b363d0b415074ed2d",
    },
    "ml-100k": {
        "u.data": "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
        "u.genre": "9757e0d3e6b298159a80dd48eaf938114690e911e39af97a76949ef1663610bb",
        "u.item": "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
        "u.user": "f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c",
    },
}


def read(dataset: str, name: str) -> bytes:
    """Content of a dataset's file, verified."""
    if folder := os.environ.get("TTEXM_DATA"):
        source = os.path.join(folder, dataset, name)
        if not os.path.isfile(source):
            raise FileNotFoundError(
                f"{dataset}/{name} is not in the folder {folder!r} that TTEXM_DATA names; "
                "put it there, or unset TTEXM_DATA to download it."
            )
        with open(source, "rb") as file:
            content = file.read()
    else:
        source = _download(dataset)
        content = _unzip(source, dataset, name)
    # The hashes are of files with LF; an archive may hold the same lines with CRLF.
    content = content.replace(b"\r\n", b"\n")
    wanted, found = SHA256[dataset][name], hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise ValueError(
            f"{name} is not the original: its sha256 must be {wanted}, got {found}; "
            f"delete {source!r} and get it again from {ARCHIVES[dataset]}."
        )
    return content


def _download(dataset):
    """Path of the dataset's archive in pooch's cache, downloaded if it is not there."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "Downloading a dataset needs pooch; pip install 'ttexm[datasets]', or set TTEXM_DATA."
        ) from error
    # The archives' hashes are not known to us: the files within are verified instead.
    return pooch.retrieve(
        ARCHIVES[dataset], known_hash=None, fname=f"{dataset}.zip", path=pooch.os_cache("ttexm")
    )


def _unzip(archive, dataset, name):
    """Content of the file of that name, in whatever folder or archive within the archive."""
    pending, why = [archive], "holds no such file"
    try:
        while pending:
            with zipfile.ZipFile(pending.pop()) as opened:
                for member in opened.namelist():
                    if member.split("/")[-1] == name:
                        return opened.read(member)
                    if member.endswith(".zip"):
                        pending.append(io.BytesIO(opened.read(member)))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        why = f"is damaged ({error})"
    with open(archive, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    raise ValueError(
        f"{name}, of sha256 {SHA256[dataset][name]}, is wanted from {archive!r}, of sha256 "
        f"{found}, which {why}; delete the archive and load again."
    )
