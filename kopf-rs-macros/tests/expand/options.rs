#[on_update(
    "kopf.dev/v1",
    "kopfexamples",
    id = "resized",
    param = 42,
    errors = ErrorsMode::Permanent,
    timeout = 30,
    retries = MAX_RETRIES,
    backoff = 1.5,
    field = ["metadata", "labels", "example.com/size"],
    old = ABSENT,
    new = |size| size.is_some(),
    labels = {"app": "x", "tier": PRESENT, KEY: is_number},
    annotations = {"old": ABSENT},
    when = |cause| cause.name() != "ignored",
)]
async fn resize(#[from(param)] step: &u64, old: Option<&str>, new: Option<String>) {}
