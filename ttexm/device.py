"""Which kernels run: the only place that knows about devices."""

from types import ModuleType

from .kernels import cpu


def get(device: str = "auto") -> ModuleType:
    """Return the kernel set of a device.

    Parameters
    ----------
    device : {"auto", "cpu"}
        ``"auto"`` takes the best device there is.

    Examples
    --------
    >>> from ttexm import device
    >>> device.get("cpu").__name__
    'ttexm.kernels.cpu'
    """
    if device in ("auto", "cpu"):
        return cpu
    if device == "cuda":
        raise RuntimeError("device='cuda' is not available in this version; use device='cpu'.")
    raise ValueError(f"device must be 'auto' or 'cpu', got {device!r}.")
