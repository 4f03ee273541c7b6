-- What products took, all together: counted in the step that ends them, and never falling (jobs/ledger/totals.py).
--   products  hash  by kernel that ran: how many, of how many launches, and microseconds of them all together, in
--                 all and in the queue, of copies to the device, of the kernel and of copies back
local served, launched = {}, {} -- what this step adds; outcomes of launches that made several products
local MEASURED = '"measured":{"h2d_ms":([^,]+),"kernel_ms":([^,]+),"d2h_ms":([^}]+)}' -- as jobs/models.py has an Outcome

-- A product that succeeds; a benchmark has no measured product.
local function serve(job, kernel, outcome, at)
  local h2d, kernel_ms, d2h = string.match(outcome, MEASURED)
  if not h2d then
    return
  end
  local sum = served[kernel] or {0, 0, 0, 0, 0, 0, 0}
  local is_first = string.match(outcome, '"batch":(%d+)') == '1' or not launched[outcome]
  launched[outcome], served[kernel] = true, sum
  local added = {1, is_first and 1 or 0, at - job.values[21], job.started - job.queued, h2d * 1e3, kernel_ms * 1e3, d2h * 1e3}
  for i, figure in ipairs(added) do
    sum[i] = sum[i] + figure
  end
end

-- One read and one write for each kernel.
local function keep_served()
  for kernel, sum in pairs(served) do
    local before = redis.call('HGET', prefix .. 'products', kernel)
    local i = 0
    for figure in string.gmatch(before or '', '%S+') do
      i = i + 1
      sum[i] = sum[i] + figure
    end
    for place, figure in ipairs(sum) do
      sum[place] = string.format('%.17g', figure)
    end
    redis.call('HSET', prefix .. 'products', kernel, table.concat(sum, ' '))
  end
end
