//! Builds the kernels: with the host compiler against the emulator (feature `emu`), and with nvcc (feature `cuda`).
//!
//! The launchers are host code in both; they are built once.

#[cfg(any(feature = "emu", feature = "cuda"))]
use std::path::PathBuf;

/// Sources of a folder, in a fixed order.
#[cfg(any(feature = "emu", feature = "cuda"))]
fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the crate's own folder").flatten();
    let is_source =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension == "cu" || extension == "cpp");
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_source).collect();
    paths.sort();
    paths
}

/// Launchers; with `emu` the kernels and the emulator too; as one static library.
#[cfg(any(feature = "emu", feature = "cuda"))]
fn build_launchers() {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).warnings(true).extra_warnings(true);
    // Products and sums are fused only where the text says so, as on the card. Every `.cu` file is C++ here.
    build.flag("-ffp-contract=off").flag("-x").flag("c++");
    build.files(sources("csrc"));
    if cfg!(feature = "emu") {
        build.define("LONGWICK_EMU", None).files(sources("emu"));
        if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
            // Without the instruction each fused multiply-add is a call.
            build.flag("-mavx2").flag("-mfma").flag("-mf16c");
        }
    }
    if cfg!(feature = "emu-asan") {
        // The checks make unrolled kernels take minutes to optimise.
        build.opt_level(1);
        build
            .flag("-fsanitize=address,undefined")
            .flag("-fno-sanitize-recover=all")
            .flag("-fno-omit-frame-pointer");
        for library in ["asan", "ubsan"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
    build.compile("longwick_kernels");
}

/// The architectures we build for; PTX of the first and of the last serves others, those between and newer ones. `LONGWICK_CUDA_ARCHITECTURES` names others (a list with commas).
#[cfg(feature = "cuda")]
fn architectures() -> Vec<String> {
    println!("cargo:rerun-if-env-changed=LONGWICK_CUDA_ARCHITECTURES");
    let list = std::env::var("LONGWICK_CUDA_ARCHITECTURES").unwrap_or_else(|_| "80,86,89,90,120".to_owned());
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

/// nvcc of the toolkit in `CUDA_HOME`, else in `PATH`, else of the pip wheels that the `python3` in `PATH` has.
#[cfg(feature = "cuda")]
fn nvcc() -> PathBuf {
    // PATH is not named: it differs between terminals, and compiling anew takes minutes.
    println!("cargo:rerun-if-env-changed=CUDA_HOME");
    if let Some(home) = std::env::var_os("CUDA_HOME") {
        return PathBuf::from(home).join("bin/nvcc");
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_path =
        std::env::split_paths(&folders).map(|folder| folder.join("nvcc")).find(|path| path.is_file());
    in_path.or_else(nvcc_of_wheels).unwrap_or_else(|| PathBuf::from("nvcc"))
}

/// nvcc of the wheels `nvidia-cuda-nvcc` and those beside it.
#[cfg(feature = "cuda")]
fn nvcc_of_wheels() -> Option<PathBuf> {
    let print = "import nvidia; print(list(nvidia.__path__)[0])";
    let output = std::process::Command::new("python3").args(["-c", print]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let nvcc = folder.join("cu13/bin/nvcc");
    nvcc.is_file().then_some(nvcc)
}

/// One fatbin a source file, and `fatbins.rs`, which includes them.
#[cfg(feature = "cuda")]
fn build_fatbins() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let architectures = architectures();
    let mut list = String::from("const FATBINS: &[(&str, &[u8])] = &[\n");
    for source in sources("csrc") {
        let name = source.file_stem().expect("a file").to_string_lossy().into_owned();
        // Holds no kernel.
        if name == "layout" {
            continue;
        }
        let target = out.join(format!("{name}.fatbin"));
        let mut command = std::process::Command::new(nvcc());
        command.args(["-std=c++17", "-fatbin", "-fmad=false", "-Werror", "all-warnings", "--threads", "0"]);
        for architecture in &architectures {
            command.arg(format!("-gencode=arch=compute_{architecture},code=sm_{architecture}"));
        }
        for architecture in [&architectures[0], &architectures[architectures.len() - 1]] {
            command.arg(format!("-gencode=arch=compute_{architecture},code=compute_{architecture}"));
        }
        let status = command.arg("-o").arg(&target).arg(&source).status().unwrap_or_else(|error| {
            panic!(
                "nvcc does not run ({error}): set CUDA_HOME to a CUDA toolkit of 12.8 or newer, put its nvcc into PATH, \
                 or install the wheels that scripts/build_cuda.sh names"
            )
        });
        assert!(status.success(), "nvcc fails on {}", source.display());
        list += &format!("    ({name:?}, include_bytes!({:?})),\n", target.display().to_string());
    }
    println!("cargo:rustc-env=LONGWICK_KERNEL_ARCHITECTURES={}", architectures.join(","));
    std::fs::write(out.join("fatbins.rs"), list + "];\n").expect("OUT_DIR is writable");
}

fn main() {
    for folder in ["build.rs", "include", "csrc", "emu"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    println!("cargo:rustc-check-cfg=cfg(launchers)");
    #[cfg(any(feature = "emu", feature = "cuda"))]
    {
        println!("cargo:rustc-cfg=launchers");
        build_launchers();
    }
    #[cfg(feature = "cuda")]
    build_fatbins();
}
