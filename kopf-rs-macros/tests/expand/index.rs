#[index("v1", "pods", errors = temporary)]
fn by_node(#[from(spec.nodeName)] node: Option<String>, name: String, by_zone: &Index<String, String>) -> Option<(String, String)> {
    by_zone.contains("a").then_some((node?, name))
}

#[on_event("v1", "nodes")]
async fn reads(_by_node: Index<String, String>, #[from(by_zone)] zones: &Index<String, String>) {}
