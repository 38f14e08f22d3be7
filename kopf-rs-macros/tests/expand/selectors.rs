#[on_event(everything)]
#[on_event("apps", everything)]
#[on_event(MyApp)]
#[on_event(group = "apps", kind = "Deployment")]
#[on_event("deployments", group = "apps", version = VERSION)]
#[on_event(category = "all")]
async fn watch(event_type: EventType) {}
