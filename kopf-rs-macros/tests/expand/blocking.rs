#[cfg(feature = "blocking")]
#[on_delete("kopfexamples", optional)]
fn work<'a>(spec: &'a KopfExample, labels: &BTreeMap<String, String>) {}
