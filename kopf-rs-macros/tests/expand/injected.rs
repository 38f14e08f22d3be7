#[on_create("kopfexamples", crate = my_framework::kopf_rs)]
async fn create_fn(db: State<Db>, #[inject] stats: Stats, #[from(name)] who: &str) -> Result<(), anyhow::Error> {
    Ok(())
}
