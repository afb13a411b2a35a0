// What launchers take. Mirrored by `ffi.rs`; a test compares the sizes.
//
// Shapes are row-major. `rows` and `tokens` count one step's packed tokens. All strides and offsets into caches are 64-bit.
#pragma once
#include <cstdint>

extern "C" {

// Element types; a value outside this list is refused. Mirrored by `Dtype` in Rust.
enum LongwickDtype : std::uint32_t {
    LONGWICK_F32 = 0,
    LONGWICK_BF16 = 1,
    LONGWICK_F16 = 2,
    LONGWICK_FP8_E4M3 = 3,
};

struct LongwickRmsNormParams {
    const void* x;         // [rows, dim], dtype
    const void* residual;  // [rows, dim], dtype, or null
    const float* weight;   // [dim]
    void* sum;             // [rows, dim], dtype: x + residual; null without residual
    void* out;             // [rows, dim], dtype
    std::uint32_t rows;
    std::uint32_t dim;  // a multiple of 8
    float epsilon;
    std::uint32_t dtype;
};

struct LongwickRopeAnglesParams {
    const std::uint32_t* positions;    // [tokens]
    const float* inverse_frequencies;  // [pairs]
    float* cosines;                    // [tokens, pairs]
    float* sines;                      // [tokens, pairs]
    std::uint32_t tokens;
    std::uint32_t pairs;
    float attention_factor;  // multiplies both (1 but for YaRN)
    std::uint32_t reserved;
};

// How the pairs that turn lie in a head; the elements past them pass through.
enum LongwickRopeLayout : std::uint32_t {
    LONGWICK_HALF_ROTATION = 0,  // element i < pairs turns with i + pairs
    LONGWICK_INTERLEAVED = 1,    // element 2i turns with 2i + 1
};

struct LongwickRopeParams {
    const void* x;             // [tokens, heads, head_dim], dtype
    const float* norm_weight;  // [head_dim], or null: no norm before the rotation
    const float* cosines;      // [tokens, pairs]
    const float* sines;        // [tokens, pairs]
    void* out;                 // [tokens, heads, head_dim], dtype; may be x
    std::uint32_t tokens;
    std::uint32_t heads;
    std::uint32_t head_dim;  // a multiple of 8, at most 512
    std::uint32_t pairs;
    float epsilon;  // of the norm
    std::uint32_t dtype;
    std::uint32_t layout;
    std::uint32_t reserved;
};

enum LongwickActivation : std::uint32_t {
    LONGWICK_SILU = 0,
    LONGWICK_GELU_TANH = 1,
    LONGWICK_CLAMPED_SWIGLU = 2,
};

struct LongwickGatedParams {
    const void* gate;         // rows of dim elements, gate_stride apart, dtype
    const void* up;           // likewise
    void* out;                // [rows, dim], dtype
    std::int64_t row_stride;  // elements from one row of gate (and of up) to the next: a multiple of 8
    std::uint32_t rows;
    std::uint32_t dim;  // a multiple of 8
    std::uint32_t activation;
    float alpha;  // of the clamped SwiGLU
    float limit;  // of the clamped SwiGLU
    std::uint32_t dtype;
};

// Where a layer's cached keys and values lie. Token t of block b, of kv head h, begins
// `b * block_stride + h * head_stride + t * head_dim` elements after `keys` (and `values`).
struct LongwickPagedKv {
    void* keys;
    void* values;
    float* key_scales;    // fp8: one a token and head, `b * scale_block_stride + h * scale_head_stride + t`; else null
    float* value_scales;  // likewise
    std::int64_t block_stride;
    std::int64_t head_stride;
    std::int64_t scale_block_stride;
    std::int64_t scale_head_stride;
    std::uint32_t num_blocks;
    std::uint32_t block_size;  // tokens: a power of two, at least 16
    std::uint32_t kv_heads;
    std::uint32_t head_dim;
    std::uint32_t dtype;
    std::uint32_t block_shift;  // log2 of block_size
};

struct LongwickKvWriteParams {
    const void* keys;            // [tokens, kv_heads, head_dim], dtype
    const void* values;          // [tokens, kv_heads, head_dim], dtype
    const std::uint64_t* slots;  // [tokens]: block * block_size + place in the block
    LongwickPagedKv cache;
    std::uint32_t tokens;
    std::uint32_t dtype;
};

// A piece of attention: some query rows over a range of keys. Lies in the plan as words.
//
// Rows are packed: row r of a token list is query head `r % group` (of the kv head's group) of token `tokens[r / group]`.
struct LongwickAttentionItem {
    std::uint32_t table;        // word of the plan where the block table begins
    std::uint32_t first_block;  // absolute position / block_size of the table's first entry
    std::uint32_t tokens;       // word of the plan where the token list begins
    std::uint32_t first_row;    // of the token list
    std::uint32_t num_rows;     // at most the tile's
    std::uint32_t first_key;    // absolute position of the first key that any row sees
    std::uint32_t end_key;      // one past the last
    std::uint32_t partial;      // first row of the partial results, or LONGWICK_NO_PARTIAL: rows are finished here
};

// The partial results of one token, to be merged in order.
struct LongwickMergeItem {
    std::uint32_t token;
    std::uint32_t first_part;  // word of the plan: for each span, ascending, the partial row of the token's first query head
    std::uint32_t num_parts;
    std::uint32_t reserved;
};

constexpr std::uint32_t LONGWICK_NO_PARTIAL = 0xffffffffu;
constexpr std::uint32_t LONGWICK_NO_WINDOW = 0xffffffffu;

struct LongwickAttentionParams {
    const void* q;             // [tokens, q_heads, head_dim], query_dtype
    void* out;                 // [tokens, q_heads, head_dim], query_dtype
    float* log_sum_exp;        // [tokens, q_heads], natural log, the sink included; or null
    const float* sinks;        // [q_heads], or null
    const std::uint32_t* plan;
    float* partial_sums;       // [partial rows, kv_heads, head_dim]
    float* partial_stats;      // [partial rows, kv_heads, 2]: greatest score (times log2 e) and sum of weights
    LongwickPagedKv cache;
    std::uint32_t first_item;  // word of the plan
    std::uint32_t num_items;
    std::uint32_t positions;   // word of the plan: absolute position of each token
    std::uint32_t q_heads;
    std::uint32_t window;      // a row at position p sees keys at positions > p - window
    float scale;               // multiplies q.k
    float soft_cap;            // cap * tanh(score / cap); 0: none
    std::uint32_t dtype;       // of the products' operands
    std::uint32_t query_dtype;  // dtype, or f32: queries are rounded as they are read, outputs are not
};

}  // extern "C"
