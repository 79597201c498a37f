"""Progress bars, by tqdm, where someone wants to see them."""


def bar(total: int, description: str, is_shown: bool):
    """Return an object with `update(text)` and `close()`: a bar, or nothing to be seen."""
    return _Bar(total, description) if is_shown else _Silence()


class _Silence:
    def update(self, text):
        pass

    def close(self):
        pass


class _Bar:
    def __init__(self, total, description):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError(
                "verbose=True shows a progress bar with tqdm: pip install 'ttexm[progress]'."
            ) from None
        self.bar = tqdm(total=total, desc=description)

    def update(self, text):
        self.bar.set_postfix_str(text)
        self.bar.update()

    def close(self):
        # What was not needed in the end is no longer to be waited for.
        self.bar.total = self.bar.n
        self.bar.close()
