//! Builds the kernels: with the host compiler against the emulator (feature `emu`).
#[cfg(feature = "emu")]
mod emu {
    /// C++ sources of a folder, in a fixed order.
    fn sources(folder: &str) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).expect("the crate's own folder").flatten();
        let is_source = |path: &std::path::PathBuf| {
            path.extension().is_some_and(|extension| extension == "cu" || extension == "cpp")
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_source).collect();
        paths.sort();
        paths
    }

    /// Kernels, launchers and the emulator, as one static library.
    pub(super) fn build() {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .opt_level(2)
            .define("LONGWICK_EMU", None)
            .warnings(true)
            .extra_warnings(true);
        // Products and sums are fused only where the text says so, as on the card. Every `.cu` file is C++ here.
        build.flag("-ffp-contract=off").flag("-x").flag("c++");
        if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
            // Without the instruction each fused multiply-add is a call.
            build.flag("-mavx2").flag("-mfma").flag("-mf16c");
        }
        if cfg!(feature = "emu-asan") {
            build
                .flag("-fsanitize=address,undefined")
                .flag("-fno-sanitize-recover=all")
                .flag("-fno-omit-frame-pointer");
            for library in ["asan", "ubsan"] {
                println!("cargo:rustc-link-lib=dylib={library}");
            }
        }
        build.files(sources("csrc")).files(sources("emu")).compile("longwick_kernels_emu");
    }
}

fn main() {
    for folder in ["build.rs", "include", "csrc", "emu"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    #[cfg(feature = "emu")]
    emu::build();
}
