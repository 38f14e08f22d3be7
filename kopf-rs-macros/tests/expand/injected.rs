#[on_create("kopfexamples", crate = my_framework::kopf_rs)]
async fn create_fn(db: State<Db>, #[inject] stats: Stats, #[from(name)] who: &str) -> Result<(), anyhow::Error> {
    Ok(())
}

#[on_event("pods")]
async fn other_indices(cells: geo::Index<String, String>, places: &Index<u8>, ours: &kopf_rs::Index<String, String>) {}
