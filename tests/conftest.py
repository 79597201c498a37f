import hypothesis

hypothesis.settings.register_profile(
    "ttexm",
    deadline=None,  # the first example of a kernel compiles it
    derandomize=True,
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ttexm")
