"""Which ops autocast runs in which precision on the CPU.

LOW: inputs are cast to the dtype of the block (bfloat16 by default). FLOAT32: inputs are cast to float32.
PROMOTE: inputs are cast to the widest of their dtypes. Other ops run on what they are given. Only float16, bfloat16 and
float32 inputs are cast; float64 and integers stay as they are. Names are those of the ops' signatures, for ops of
`nn.functional` without the prefix.
"""

LOW = frozenset(
    """
    addbmm addmm baddbmm bmm chain_matmul einsum inner linear linalg.matmul linalg.vecdot matmul mm prelu
    scaled_dot_product_attention
    conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
    gru lstm multi_head_attention_forward rnn_relu rnn_tanh
    """.split()
)

FLOAT32 = frozenset(
    """
    cdist cholesky cholesky_inverse cholesky_solve geqrf inverse lu lu_solve nanquantile orgqr ormqr pinverse polar prod qr
    quantile stft svd trace triangular_solve view_as_complex
    fft.fft fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft fft.irfft2 fft.irfftn fft.rfft
    fft.rfft2 fft.rfftn
    linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
    linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq linalg.matrix_rank linalg.qr linalg.solve linalg.svd
    linalg.svdvals linalg.tensorinv linalg.tensorsolve
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d fractional_max_pool2d fractional_max_pool3d grid_sample grid_sampler
    grid_sampler_2d grid_sampler_3d max_pool3d max_unpool2d max_unpool3d reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d replication_pad3d
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
    nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
    fake_quantize_per_tensor_affine
    """.split()
)

PROMOTE = frozenset({"cat", "index_copy", "stack"})

ALL = (LOW, FLOAT32, PROMOTE)
