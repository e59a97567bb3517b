//! Each law of the contract is broken by a layer of its own, and found.

mod bodies;
mod calls;

type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

fn paused<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}
