"""Progress bars, drawn by tqdm."""


def bar(total: int, description: str, is_shown: bool) -> "_Bar | _Silence":
    """Return a progress bar with `update(text)`, `expect(total)` and `close()`, or a silent one."""
    return _Bar(total, description) if is_shown else _Silence()


class _Silence:
    def update(self, text):
        pass

    def expect(self, total):
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

    def expect(self, total):
        self.bar.total = total
        self.bar.refresh()

    def close(self):
        # If there was less to do, the bar is complete.
        self.bar.total = self.bar.n
        self.bar.close()
