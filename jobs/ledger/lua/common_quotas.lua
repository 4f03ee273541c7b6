-- Put after common.lua: what one owner may have in flight, and ask for in a minute.
--   counts                flight:<owner>, flight_bytes:<owner>: jobs in flight (queued and running) that were recorded
--                         under such a limit, and the bytes of their operands and products
--   flops:<owner>         string  when all operations asked for are paid off, at the owner's rate; goes at that time
--   flops_at:<owner>      string  when that was written
-- A job that was recorded under a limit has its `cost` in its hash: bytes and operations.
local WINDOW_US = 60e6
local MAX_COST_US = 2 ^ 53 -- 285 years; what is much longer is no number of microseconds to Redis

local function flight_of(owner)
  return 'flight:' .. owner, 'flight_bytes:' .. owner
end

local function set_paid(owner, paid, at)
  local keep_ms = int(math.max(math.ceil((paid - at) / 1000), 1))
  redis.call('SET', prefix .. 'flops:' .. owner, int(paid), 'PX', keep_ms)
  redis.call('SET', prefix .. 'flops_at:' .. owner, int(at), 'PX', keep_ms)
end

-- When all is paid off. Where the clock was set back since that was written, what was open then is open now.
local function paid_off(owner, at)
  local paid, written = unpack(redis.call('MGET', prefix .. 'flops:' .. owner, prefix .. 'flops_at:' .. owner))
  local ahead = (written or at) - at
  if paid and ahead > 0 then
    set_paid(owner, paid - ahead, at)
    return paid - ahead
  end
  return math.max(paid or 0, at)
end

-- `limits`: how many jobs may wait, alone or with the most jobs and bytes in flight, the most operations a minute (0: any
-- number), and the bytes and operations of this job. A refusal, or what `charge_quota` takes.
-- `waiting_in_all`: jobs of all owners, where that is known.
local function over_quota(owner, limits, known_cost, waiting_in_all)
  local max_waiting_alone = tonumber(limits)
  if max_waiting_alone and waiting_in_all and waiting_in_all < max_waiting_alone then -- no owner has more of them
    return nil
  end
  local waiting = redis.call('ZCARD', state_key('queued', owner))
  if max_waiting_alone then
    return waiting >= max_waiting_alone and {'quota_exceeded'} or nil
  end
  local numbers = {}
  for number in string.gmatch(limits, '%S+') do
    numbers[#numbers + 1] = tonumber(number)
  end
  local max_waiting, max_jobs, max_bytes, max_flops, bytes, flops = unpack(numbers)
  if known_cost then
    bytes, flops = string.match(known_cost, '(%S+) (%S+)')
  end
  local jobs_field, bytes_field = flight_of(owner)
  read_counts(jobs_field, bytes_field)
  if waiting >= max_waiting then
    return {'quota_exceeded'}
  elseif max_jobs > 0 and known[jobs_field] >= max_jobs then
    return {'quota_exceeded', 'jobs', int(max_jobs), 0}
  elseif max_bytes > 0 and known[bytes_field] + bytes > max_bytes then
    return {'quota_exceeded', 'bytes', int(max_bytes), 0}
  end
  local charge = {cost = int(bytes) .. ' ' .. string.format('%.0f', flops), bytes = tonumber(bytes)}
  if max_flops > 0 then
    local at = now()
    local paid = paid_off(owner, at)
    local costs = math.min(flops / max_flops * WINDOW_US, MAX_COST_US)
    -- What is more than a minute's worth by itself is let in once all before it is paid off.
    local wait = math.min(paid + costs - at - WINDOW_US, paid - at)
    if wait > 0 then
      return {'quota_exceeded', 'flops', string.format('%.15g', max_flops), int(math.ceil(wait / 1e6))}
    end
    charge.paid, charge.at = paid + costs, at
  end
  return nil, charge
end

local function charge_quota(job, charge)
  if not charge then
    if job.cost then -- of a run under a quota that is no more, whose end gave it back
      write('HDEL', job.key, 'cost')
    end
    return
  end
  local jobs_field, bytes_field = flight_of(job.owner)
  job.cost = charge.cost
  set(job, 'cost', charge.cost)
  count(jobs_field, 1)
  count(bytes_field, charge.bytes)
  if charge.paid then
    set_paid(job.owner, charge.paid, charge.at)
  end
end

-- At its end.
leave_flight = function(job)
  if job.cost then
    local jobs_field, bytes_field = flight_of(job.owner)
    count(jobs_field, -1)
    count(bytes_field, -string.match(job.cost, '%d+'))
  end
end
