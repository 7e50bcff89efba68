// What export leaves in a graph and no engine needs: taken out, without changing what is computed.
//
//   wrap_with_set_grad_enabled(mode, graph, …)      its nodes in place, with Node::grad_enabled = mode
//   wrap_with_autocast(…, enabled, …, graph, …)     its nodes in place; where enabled, with the casts that autocast
//                                                   would make, written out
//   _assert_tensor_metadata, sym_constrain_range…   gone: they compare with the machine of the export, or repeat ranges
//   dropout(x, p, False), detach(x), alias(x)       x
//   arithmetic on sizes that nobody uses            gone
//
// _assert_scalar and _assert_async stay: they guard what the graph was specialised to. Device constants stay as the
// exporter wrote them. Sub-graphs are treated likewise.
#pragma once

#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

// `graph` must be well formed (ir::verify) and is so afterwards; on failure its content is undefined. Fails with
// kCorruptData for wrappers called with other arguments than they take, and with kUnsupported, naming the node, for an
// autocast region whose casts are not known.
Status normalize(ir::Graph* graph);

}  // namespace kpt
