// A table of live state whose scans keep apart what Spark pushes into each of them; see live_table.py.
package penstock;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class LiveTable implements SupportsRead {
  private final String source;
  private final StructType schema;
  private final Map options;

  public LiveTable(String source, StructType schema, Map options) {
    this.source = source;
    this.schema = schema;
    this.options = options;
  }

  public String name() {
    return "penstock " + options.get("store");
  }

  public StructType schema() {
    return schema;
  }

  public Set capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ignored) {
    return new Builder(source, schema, options);
  }

  public static class Builder implements ScanBuilder, SupportsPushDownFilters, SupportsPushDownRequiredColumns {
    private static final int MOST_VALUES = 1000;

    private final String source;
    private final Map options;
    private StructType schema;

    public Builder(String source, StructType schema, Map options) {
      this.source = source;
      this.schema = schema;
      this.options = new HashMap(options);
    }

    // All filters stay with Spark too: what is read may be more than what was asked for.
    public Filter[] pushFilters(Filter[] filters) {
      List known = new ArrayList();
      for (int i = 0; i < filters.length; i++) {
        add(known, filters[i]);
      }
      try {
        options.put("penstock.filters", new ObjectMapper().writeValueAsString(known));
      } catch (JsonProcessingException exc) {
        throw new IllegalStateException(exc);
      }
      return filters;
    }

    public Filter[] pushedFilters() {
      return new Filter[0];
    }

    // Without columns, as for a count, the keys are read.
    public void pruneColumns(StructType required) {
      schema = required.length() > 0 ? required : new StructType(new StructField[] {schema.fields()[0]});
    }

    public Scan build() {
      PythonDataSourceV2 provider = new PythonDataSourceV2();
      provider.setShortName(source);
      SupportsRead table = (SupportsRead) provider.getTable(schema, new Transform[0], options);
      return table.newScanBuilder(new CaseInsensitiveStringMap(options)).build();
    }

    private static void add(List known, Filter filter) {
      if (filter instanceof EqualTo) {
        add(known, ((EqualTo) filter).attribute(), "=", ((EqualTo) filter).value());
      } else if (filter instanceof EqualNullSafe) {
        add(known, ((EqualNullSafe) filter).attribute(), "=", ((EqualNullSafe) filter).value());
      } else if (filter instanceof GreaterThan) {
        add(known, ((GreaterThan) filter).attribute(), ">", ((GreaterThan) filter).value());
      } else if (filter instanceof GreaterThanOrEqual) {
        add(known, ((GreaterThanOrEqual) filter).attribute(), ">=", ((GreaterThanOrEqual) filter).value());
      } else if (filter instanceof LessThan) {
        add(known, ((LessThan) filter).attribute(), "<", ((LessThan) filter).value());
      } else if (filter instanceof LessThanOrEqual) {
        add(known, ((LessThanOrEqual) filter).attribute(), "<=", ((LessThanOrEqual) filter).value());
      } else if (filter instanceof StringStartsWith) {
        add(known, ((StringStartsWith) filter).attribute(), "prefix", ((StringStartsWith) filter).value());
      } else if (filter instanceof In) {
        Object[] values = ((In) filter).values();
        boolean all = values.length <= MOST_VALUES;
        for (int i = 0; i < values.length; i++) {
          all = all && isPlain(values[i]);
        }
        if (all) {
          known.add(Arrays.asList(new Object[] {((In) filter).attribute(), "in", values}));
        }
      }
    }

    private static void add(List known, String column, String operator, Object value) {
      if (isPlain(value)) {
        known.add(Arrays.asList(new Object[] {column, operator, value}));
      }
    }

    private static boolean isPlain(Object value) {
      return value instanceof String || value instanceof Long || value instanceof Integer || value instanceof Short
          || value instanceof byte[];
    }
  }
}
