//! [`ModelHost`]: several models under one byte budget.

use super::{Engine, EngineError, EngineOptions, ModelSpec};

/// Loads models as they are asked for, and evicts the least recently used ones when the budget is short.
pub struct ModelHost {
    budget_bytes: u64,
    options: EngineOptions,
    /// Most recently used last.
    loaded: Vec<(ModelSpec, Engine)>,
    loads: u64,
}

impl ModelHost {
    /// A host that holds `budget_bytes` of weights and KV pools at most, but always the model in use. The
    /// quantisation is each model's own, and not that of `options`.
    pub fn new(budget_bytes: u64, options: EngineOptions) -> Self {
        Self { budget_bytes, options, loaded: Vec::new(), loads: 0 }
    }

    /// The engine of the model, loaded if it is not. `progress(done, total)` counts bytes on disk.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn engine(
        &mut self,
        model: &ModelSpec,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<&mut Engine, EngineError> {
        let place = match self.loaded.iter().position(|(loaded, _)| loaded == model) {
            Some(place) => {
                let entry = self.loaded.remove(place);
                self.loaded.push(entry);
                self.loaded.len() - 1
            }
            None => {
                let options = EngineOptions { quantization: model.quantization, ..self.options.clone() };
                let engine = Engine::load(&model.path, options, progress)?;
                self.loads += 1;
                self.loaded.push((model.clone(), engine));
                while self.loaded.len() > 1 && self.bytes() > self.budget_bytes {
                    self.loaded.remove(0);
                }
                self.loaded.len() - 1
            }
        };
        Ok(&mut self.loaded[place].1)
    }

    /// Bytes of weights and KV pools held now.
    pub fn bytes(&self) -> u64 {
        let memory = self.loaded.iter().map(|(_, engine)| engine.memory());
        memory.map(|memory| (memory.weights + memory.kv_pool) as u64).sum()
    }

    /// Models loaded so far, repeated loads of one model counted again.
    pub fn loads(&self) -> u64 {
        self.loads
    }
}
