from penstock import Serdes, TopologyTestDriver
from penstock_examples.orders_customers import topology


def test_should_follow_orders_and_customers() -> None:
    text, json = Serdes.string(), Serdes.json()
    with TopologyTestDriver(topology()) as driver:
        orders = driver.create_input_topic("orders", text, json)
        customers = driver.create_input_topic("customers", text, json)
        shipments = driver.create_output_topic("shipments", text, text)
        orders.pipe_input("o1", {"customer": "c1", "item": "lamp"})
        assert shipments.is_empty
        customers.pipe_input("c1", {"name": "Ada", "city": "London"})
        orders.pipe_input("o2", {"customer": "c1", "item": "desk"})
        assert shipments.read_key_values() == [("o1", "lamp for Ada in London"), ("o2", "desk for Ada in London")]
        customers.pipe_input("c1", {"name": "Ada", "city": "Turin"})
        assert shipments.read_key_values_to_map() == {"o1": "lamp for Ada in Turin", "o2": "desk for Ada in Turin"}
        orders.pipe_input("o1", None)
        assert shipments.read_key_values() == [("o1", None)]
        assert driver.get_key_value_store("shipments").get("o2") == "desk for Ada in Turin"
